"""Plots that turn on a thing: it is lost, broken, won, given, kept, fought over, found, or carried off by the wind."""

from __future__ import annotations

from .story_plot import Plot

_HAS_THING = """
- {He} had {a_thing} and {used} [every day|all the time|every evening].
  [The best thing {he} had was|What {he} loved most was] {a_thing}.
  {He} [loved|liked] {his} {thing} more than anything else.
  {He} had {a_thing}, and {he} took it [everywhere|wherever {he} went].
"""

LOST = Plot(
    name="lost",
    who="had {a_thing}",
    wish="[loses {his} {thing}|has lost {a_thing}|loses {a_thing}]",
    key="{noun}",
    topics=("losing something", "helping a friend", "friends"),
    title="The Lost {Noun}",
    lesson="When you have a problem, a friend can help you.",
    thing=True,
    helper=True,
    asks=("lose", "found_where"),
    text=_HAS_THING
    + """
- But one [morning|day], the {noun} was gone.
  But one [morning|day], {hero} could not find the {noun} [anywhere|at all].
  One [windy|rainy|cold] day, {he} came home without the {noun}. [It was lost.|{He} had lost it.]
  Then one [day|evening], {hero} saw that the {noun} was not there anymore.
+ {He} looked under the bed, behind the door and [in every box|under the table], but [it was not there|found nothing].
  {hero} looked [here and there|up and down], but there was no {noun} in the house.
  {He} looked in [the kitchen|every room] and under the [bed|table], but the {noun} was not there.
- {hero} sat down [on a stone|by the path] and began to cry.
  "[Oh no|Oh dear]," said {hero}. "Where can it be?"
  {hero} felt very sad. "I will never see my {noun} again," {he} said.
- [Then|Just then,|Soon] {a_friend} named {friend} came [by|along|down the path]. "[Why are you sad|What is wrong]?" \
{f_he} asked.
  {A_friend} named {friend} [saw {him}|came along]. "[What has happened|Why do you look so sad]?" asked {friend}.
- "I lost my {thing}," said {hero}. "[Will|Can] you help me?"
  {hero} told {friend} [all about|everything about] the lost {noun}.
  "My {thing} is gone," said {hero}, "and I looked [in every corner|everywhere]."
+ {friend} thought for a moment. "[Let us go back the way you came|We will look outside]," {f_he} said.
  "Do not [cry|be sad]," said {friend}. "Two can look better than one."
  "I have good eyes," said {friend}. "[We will find it|Let us look together]."
- So they [walked along the path|went out together|started to look], step by step, [until the sun was low|for a long \
time].
  The two looked [near the gate|by the old tree] and [along the path|on the hill]. They did not give up.
  They went along the path and looked at [every stone|every bush].
- There, {spot}, was the {thing}!
  "Look!" [called|cried] {friend}. The {thing} was {spot}.
  Suddenly {hero} saw something {spot}. It was the {thing}!
+ {hero} [jumped for joy|laughed with joy] and hugged {friend}.
  "[Thank you, {friend}|You are a good friend, {friend}]!" said {hero}, and {he} held the {noun} tight.
  {hero} was so [happy|glad] that {he} danced [around {friend}|on the path].
- From that day on, {hero} and {friend} were [best|good] friends.
  After that, {hero} took good care of the {noun}, and {friend} came to visit every [day|week].
  They walked home [hand in hand|side by side], and {hero} never lost the {noun} again.
""",
)

MISTAKE = Plot(
    name="mistake",
    who="wanted to borrow {a_thing}",
    wish="[breaks a friend's {noun}|makes a mistake with {a_thing}|says sorry about {a_thing}]",
    key="sorry",
    topics=("a mistake", "saying sorry", "telling the truth"),
    title="{Hero} Says Sorry",
    lesson="When you make a mistake, tell the truth and say sorry.",
    thing=True,
    asks=("harm", "owner"),
    text="""
- {He} wanted to borrow {a_thing} very much.
  {He} often thought about {a_thing} that {he} wanted to borrow.
  There was {a_thing} that {he} wanted to borrow for a day.
- The {noun} belonged to {a_friend} named {friend}. "[You may have it for one day|Take it for a day]," said {friend}.
  {A_friend} named {friend} had it. "[I will give it to you for a day|Here it is]," said {friend}, "but be careful."
- {hero} [took the {noun} home|ran home with the {noun}] and {used} all [day|morning].
  {hero} was very happy. {He} {used} again and again.
- But then {he} [fell over a stone|slipped on the wet grass|was not careful], and {he} {harm} the {noun}.
  Then something bad happened. {He} [slipped|fell] on the steps and {harm} the {noun}.
+ {hero} was [afraid|scared]. "{friend} will be angry with me," {he} thought.
  {He} did not know what to do. "What will {friend} say?" {he} thought.
+ First {he} [hid|put] the {noun} under the bed[| and said nothing].
  {He} wanted to [hide it|run away], and {he} [could not eat|felt sick] all evening.
- {hero} could not sleep that night. {He} knew [that it was not right|what {he} had to do].
  In bed, {hero} thought for a long time. "I must tell the truth," {he} said [at last|to the moon].
- In the morning, {hero} went to {friend}. "I {harm} your {noun}," {he} said. "I am so sorry."
  The next day, {hero} took the {noun} to {friend}. "I am sorry," {he} said. "I {harm} it."
- {friend} was [quiet|sad] for a moment. Then {f_he} [smiled|nodded]. "Thank you for telling me the truth," said \
{friend}.
  {friend} looked at the {noun} and then at {hero}. "I am not angry," {f_he} said. "You told me the truth."
- They sat down [at the table|in the sun] and [fixed|mended] the {noun} together. It looked [almost like new|very good].
  Then they fixed it together. They worked all [day|morning], and soon the {noun} was [whole|good] again.
- {hero} felt [light and happy|much better]. The two were [better|closer] friends than before.
  After that, {hero} was always careful, and {he} was never afraid to tell {friend} the truth.
""",
)

RACE = Plot(
    name="race",
    who="wanted to win {a_thing}",
    wish="[wants to win {a_thing}|runs a race to win {a_thing}]",
    key="race",
    topics=("a race", "a contest", "winning and losing"),
    title="The Race for the {Noun}",
    lesson="Being kind is better than winning.",
    thing=True,
    asks=("prize",),
    text="""
- {He} wanted to win {a_thing}.
  More than anything, {he} wanted to win {a_thing}.
- There was a big race [every summer|that week], and the {thing} was the prize.
  It was the prize in the big race, and [everyone wanted to win it|everyone talked about it].
+ {hero} ran up and down the road every [morning|day] to get [fast|strong].
  Every day {hero} got up early and ran [around the house|along the path]. {He} got faster and faster.
- On the day of the race, everybody came to watch. "One, two, three, go!" [called|cried] the [judge|old teacher].
  Then the great day came. A [bell|drum] rang out, and the race began.
+ {hero} ran [like the wind|as fast as {he} could]. Soon {he} was [ahead of all the others|in front].
  {hero} was very fast. One after another, the others fell behind.
- Then {he} heard a cry. {A_friend} named {friend} [had fallen|lay on the road] and could not get up.
  Near the end, {he} saw {a_friend} named {friend} [by the road|on the ground]. {friend} had hurt {f_his} leg.
- {hero} looked at the end of the road. It was so near! But {he} [stopped|turned around].
  {hero} thought of the {noun}. Then {he} thought of {friend}, and {he} stopped.
- "[Hold on to me|Lean on me]," said {hero}. "We will go on together."
  {He} helped {friend} up. "I will not leave you [here|alone]," said {hero}.
- Step by step, they came to the end. They were the last of all.
  The others ran past them, and the two came in last.
- But everybody [clapped|cheered], and the judge gave {hero} the {thing}. "You have the biggest heart," said the judge.
  Then the judge came to {hero}. "You were kind, and that is worth more than being fast. The {noun} is for you."
- {hero} and {friend} used it together from that day on, and they were [always|the best of] friends.
  {hero} smiled and shared the prize with {friend}. They were friends for the rest of their lives.
""",
)

GIFT = Plot(
    name="gift",
    who="had {a_thing}",
    wish="[gives away {his} {thing}|has no gift but {a_thing}|gives {a_thing} to a friend]",
    key="gift",
    topics=("a gift", "a birthday", "giving"),
    title="A Gift for {Friend}",
    lesson="The best gifts come from the heart.",
    thing=True,
    asks=("gift", "birthday"),
    text=_HAS_THING
    + """
- {His} best friend was {a_friend} named {friend}. One day it was {friend}'s birthday.
  One [morning|day], {he} got a letter from {a_friend} named {friend}. "Come to my birthday party," it said.
- "I need a gift," thought {hero}. But {he} had no money.
  {hero} wanted to bring a gift, but {his} pockets were empty.
+ {He} tried to bake a cake, but it got [black|hard as a stone].
  {He} looked for flowers, but [it was winter|the goats had eaten them all].
  {He} tried to [paint a picture|write a song], but it did not turn out well.
- Then {he} looked at {his} {thing}. [It was the best thing {he} had.|"Should I give this away?" {he} thought.]
  At last {his} eyes fell on the {thing}. It was hard to [think of|give away], for {he} loved it so much.
- {hero} thought for a long time. Then {he} put the {noun} in [a box|paper] and tied it with a [string|bow].
  "{friend} is worth it," said {hero}, and {he} put the {noun} in a [pretty|small] box.
- At the party, {friend} opened the gift. {F_his} eyes grew [big|wide].
  {friend} opened the gift [slowly|at once]. "Oh!" {f_he} said. "It is the {thing}!"
- "But you love it so much," said {friend}. "I do," said {hero}, "but I love my friend more."
  "This is the thing you love most!" said {friend}. {hero} smiled. "I want you to be happy," {he} said.
- {friend} hugged {hero}. "Then it will belong to both of us," {f_he} said.
  {friend} [thought a little|laughed]. "I know what we can do," {f_he} said. "We will share it."
- So the {noun} had two homes, one week here and one week there, and [both friends were happy|nobody was sad].
  After that, they {used} together, and it was [more fun|better] than ever before.
""",
)

PROMISE = Plot(
    name="promise",
    who="always kept {his} word",
    wish="[keeps a promise about {a_thing}|has to look after {a_thing}]",
    key="promise",
    topics=("a promise", "keeping a promise", "trust"),
    title="{Hero} Keeps a Promise",
    lesson="A good friend keeps a promise.",
    thing=True,
    asks=("keep",),
    text="""
- Everyone knew that {he} always kept {his} word.
  When {he} said something, {he} did it. {He} always kept {his} word.
- {His} friend was {a_friend} named {friend}, who had {a_thing}.
  Next door lived {a_friend} named {friend}. {friend} had {a_thing} and loved it very much.
- One day, {friend} had to go on a long trip. "Please keep my {noun} [safe|for me]," {f_he} said. "Do not give it away."
  One [spring|autumn] day, {friend} went away [for a month|to see the world]. "[Will you|Can you] look after my \
{noun}?" {f_he} asked.
- "I promise," said {hero}. {He} put the {noun} [by {his} bed|on a high shelf].
  "Yes, that is a promise," said {hero}, and {he} took the {noun} home.
- Days [passed|went by]. Then a rich man came to the door. "I will give you ten gold coins for that {noun}," he said.
  After a week, a man with a big hat came by. "Sell me the {noun}," he said. "I will pay well."
- {hero} [was poor|had little money], and the gold looked good. But {he} shook {his} head. "No," {he} said. "I made a \
promise."
  {hero} thought of [all the things {he} could buy|the money]. But then {he} said, "No. A promise is a promise."
+ Then one night, a [strong wind|great storm] came, and rain fell into the house. {hero} [held|kept] the {noun} dry \
under {his} coat.
  Later, water came into the house after a big rain. First of all, {hero} carried the {noun} to a dry place.
- At last {friend} came home. "Do you still have my {noun}?" {f_he} asked.
  Then one [morning|evening] there was a knock. {friend} was back!
- "Here it is," said {hero}. The {thing} was as good as [on the first day|ever].
  {hero} smiled and brought out the {thing}. [It was safe and dry.|Nothing had happened to it.]
- {friend} was very happy. "You kept your promise," {f_he} said. "[I can always trust you|You are a true friend]."
  "Thank you for keeping your promise," said {friend}, and {f_he} hugged {hero}.
+ That evening they [ate cake|drank tea] together, and {friend} told stories [about the trip|of far places] until late \
at night.
  From then on, {hero} could use the {noun} [whenever {he} wanted|every day], and the two stayed friends.
""",
)

QUARREL = Plot(
    name="quarrel",
    who="had a good friend",
    wish="[has a fight with a friend about {a_thing}|does not want to share {a_thing}]",
    key="{noun}",
    topics=("a fight", "two friends who fight", "making peace"),
    title="Two Friends and {A_Thing}",
    lesson="Sharing is better than fighting.",
    thing=True,
    asks=("fight",),
    text="""
- {His} [best|good] friend was {a_friend} named {friend}.
  {He} had a good friend, {a_friend} named {friend}. They played together [every day|all the time].
- One [day|morning], they [were out for a walk|walked along the path] and found {a_thing}.
  One [warm|sunny] day, the two friends saw {a_thing} {spot}.
- "It is mine!" [said|cried] {hero}. "No, I saw it first!" said {friend}.
  "I want it," said {hero}. "No, it is for me," said {friend}.
+ They both pulled at the {noun}, and [they shouted bad words|they got very angry].
  Both held the {noun}, and no one wanted to let go.
- At last {hero} pulled the hardest and ran home with the {noun}. {friend} went home [alone|in tears].
  In the end, {friend} let go. "Then keep it," {f_he} said, and {f_he} walked away.
- Now {hero} had the {noun} all for {himself}. {He} {used}, but it was no fun.
  At home, {hero} {used}. But {he} was alone, and [nobody laughed with {him}|the house was very quiet].
+ Outside, the sun was shining, but {hero} felt sad. {He} [missed|thought of] {friend}.
  "What good is the {noun} without my friend?" thought {hero}.
- So {he} took the {noun} and went to {friend}'s [house|door]. "I am sorry," said {hero}. "I was not [nice|fair]."
  The next morning, {hero} [knocked|stood] at {friend}'s door. "I am sorry that I was so [mean|angry]," {he} said.
- "I am sorry too," said {friend}. "[You are more important than|I like you more than] any {noun}."
  {friend} looked at {hero} for a while and then smiled. "I am sorry too," said {friend}.
- "Let us share it," said {hero}. "One day you have it, and one day I have it."
  They made a plan. The {noun} would be with {hero} one day and with {friend} the next.
- But most days, they {used} together, and they never fought again.
  And so the two were friends again, and the {noun} [belonged to both of them|was theirs together].
""",
)

HONEST = Plot(
    name="honest",
    who="found {a_thing}",
    wish="[finds {a_thing}|finds {a_thing} on the road]",
    key="{noun}",
    topics=("being honest", "finding something", "doing the right thing"),
    title="The {Noun} on the Road",
    lesson="It is good to be honest and give back what is not yours.",
    thing=True,
    asks=("find", "owner"),
    text="""
- One [morning|day], {he} found {a_thing} {spot}.
  One [sunny|cloudy] day, {he} went for a walk and found {a_thing}. It lay {spot}.
+ "How [beautiful|pretty] it is!" said {hero}. There was nobody [around|on the road].
  {hero} picked it up. "I always wanted {a_noun} like this," {he} said.
- {He} took it home, and {he} {used} until [the evening|it got dark].
  {He} ran home and {used} all day. {He} was very happy.
- The next day, {hero} met {a_friend} named {friend}, who was [crying|very sad].
  But the next morning, {he} saw {a_friend} named {friend}, who looked for something [on the road|in the grass].
- "What is wrong?" asked {hero}. "I lost my {thing}," said {friend}. "[My grandmother gave it to me|It was a gift from \
my father]."
  "I cannot find my {thing}," said {friend}. "I have looked for it [all night|for two days]."
+ {hero} felt [hot and cold|strange]. {He} did not want to give the {noun} away.
  {hero} said nothing. "If I keep it, nobody will know," {he} thought.
- Then {hero} saw the tears in {friend}'s eyes. "[I would know|It is not mine]," {he} thought.
  Then {hero} looked at {friend}'s sad face. It was not right to keep the {noun}.
- "Wait here," said {hero}. {He} ran home and came back with the {noun}. "[Is this yours|Is it this one]?" {he} asked.
  {hero} ran home as fast as {he} could and [got|brought] the {noun}. "Here it is," {he} said. "I found it yesterday."
- {friend} [laughed and cried at the same time|jumped for joy]. "Thank you! You are so honest," {f_he} said.
  {friend} could not believe it. "You are honest and kind," {f_he} said.
+ "Come to my house," said {friend}. "We can [eat cake and play|have fun with it] together."
  {friend} asked {hero} to come along, and they had [tea and cake|warm bread with honey].
- {hero} had given back {a_noun}, but {he} had found a friend.
  That evening, {hero} went home without the {noun}, but with a new friend, and {he} was happy.
""",
)

STUCK = Plot(
    name="stuck",
    who="had {a_thing}",
    wish="[loses {a_thing} in the wind|has {a_thing} that is stuck in a tree]",
    key="tree",
    topics=("a windy day", "working together", "something funny"),
    title="The {Noun} in the Tree",
    lesson="Together you can do what you cannot do alone.",
    thing=True,
    helper=True,
    asks=("wind",),
    text=_HAS_THING
    + """
- One [windy|wild] day, the wind took the {noun} and carried it [away|into the air].
  But one day a strong wind came. Whoosh! It pulled the {noun} out of {his} house and up into the air.
- Up and up it went, until it got stuck in [a very high|the highest] tree.
  The {noun} flew over the [garden|fence] and landed at the top of a tree.
+ {hero} jumped, but the tree was much too high.
  {hero} took a long stick, but it was too short.
+ {He} tried to climb the tree, but {he} slid down again [and again|and sat in the grass].
  {He} shook the tree, but only [leaves|an apple] fell on {his} head.
- {A_friend} named {friend} [saw it and laughed|came by and laughed]. "That looks funny," {f_he} said. "Can I help you?"
  Then {a_friend} named {friend} came along and looked up. "[I can help you|Let me help you]," {f_he} said.
+ "The wind took my {noun}," said {hero}. "I cannot get it down."
  {hero} pointed up at the {noun}. "It is stuck, and I am too small," {he} said.
- "[Stand|Climb] on my back," said {friend}. So {hero} did, but [they both began to shake|{friend} had to sneeze].
  {friend} had an idea. "Get on my back," {f_he} said, and up went {hero}.
- Bump! They both fell into the mud, and they were brown from head to foot.
  They stood, they shook, and splash! They landed in a puddle of mud.
- They looked at each other and laughed so loud that [the whole tree shook|all the birds flew up].
  {hero} began to laugh, and {friend} laughed too. They laughed until the tree shook.
- Then something fell down, right on {friend}'s head. It was the {thing}!
  And what fell out of the tree? It was the {thing}, and it landed [in front of them|in the mud too].
- "We did it!" said {hero}. They washed in the [river|pond] and were friends from that day on.
  {hero} hugged {friend}, mud and all, and they laughed about that day for a long time.
""",
)

PLOTS = (LOST, MISTAKE, RACE, GIFT, PROMISE, QUARREL, HONEST, STUCK)

"""Plots in which somebody does something: helps, learns, builds, plants, shares, or follows a dream."""

from __future__ import annotations

from .story_plot import Plot

SHARE = Plot(
    name="share",
    who="loved to eat {food}",
    wish="[shares {his} {food}|does not want to share {his} {food}|learns to share]",
    key="{food}",
    topics=("sharing", "food"),
    title="The {Food} for Two",
    lesson="Things are better when you share them.",
    asks=("share", "hungry"),
    text="""
- {He} loved to eat {food}.
  There was nothing {he} loved more than {food}.
- One day, {he} {got} {a_food}. It [smelled|looked] so good!
  One [cold|rainy] morning, {he} {got} {a_food}. "Mmm," {he} said.
+ "This {food} is all for me," said {hero}, and {he} sat down at the table.
  {hero} put the {food} on the table. "I will eat it all by myself," {he} said.
- Just then, there was a [soft |]knock at the door. It was {a_friend} named {friend}.
  But then {he} saw {a_friend} named {friend} in front of the window.
- "I am so hungry," said {friend}. "I have not eaten since [yesterday|this morning]."
  {friend} looked thin and tired. "Do you have something to eat?" {f_he} asked.
- {hero} looked at the {food} and then at {friend}. "No, I have nothing," {he} said, and {friend} walked away.
  {hero} did not want to share. "Go away," {he} said, and {friend} went off with a sad face.
- But now the {food} did not taste good. {hero} thought of {friend} all alone out there.
  {hero} took one bite, but {he} could not [eat more|go on]. {He} felt bad about {friend}.
- So {he} ran [out of the door|after {friend}]. "[Wait|Come back], {friend}!" {he} called. "I am sorry. We can share."
  {hero} jumped up and ran down the road. "Please come back, {friend}," {he} said. "Half of it is for you."
- They ate the {food} together, and [every bite tasted wonderful|it was the best {food} in the world].
  They sat side by side, ate the {food} and told each other funny stories.
- The next day, {friend} came back with a basket of [nuts|berries|plums]. "Now I can share with you," {f_he} said.
  A week later, {friend} was at the door again, with [warm bread|sweet apples]. "Today I have something for you," \
{f_he} said.
+ From then on, {hero} never ate alone again.
  And since that day, the two friends have always [shared everything|eaten together].
""",
)

STORM = Plot(
    name="storm",
    who="liked to look at the clouds",
    wish="[lives through a storm|helps a friend in a storm|hears a big storm]",
    key="storm",
    topics=("a storm", "bad weather", "helping a neighbor"),
    title="The Big Storm",
    lesson="In a storm, it is good not to be alone.",
    asks=("door",),
    text="""
- {He} liked to look at the clouds.
  Every day {he} looked up at the clouds in the sky.
- One evening, the clouds were [black|dark and low]. "A storm is coming," said {hero}.
  One day, the sky got [dark|black], and [the birds were quiet|all the birds flew away]. "That will be a storm," {he} \
said.
+ {He} closed the windows and lit a [candle|small lamp].
  {hero} brought in some wood and made a warm fire.
- Then the rain came down, and the wind shook the [roof|walls]. Boom, went the thunder!
  Soon the storm was there. The wind [cried|howled], and the rain fell like a river.
- In the middle of the storm, {he} heard a knock. Who could that be?
  Then there was a weak voice at the door. "Please let me in!"
- It was {a_friend} named {friend}, wet and cold. "The storm took my roof," {f_he} said.
  {hero} opened the door. There stood {a_friend} named {friend}. "My house is full of water," {f_he} said.
- "Come in, come in," said {hero}. {He} gave {friend} a dry blanket and a cup of hot tea.
  {hero} pulled {friend} inside and [put a warm coat around {f_him}|gave {f_him} some hot soup].
+ They sat by the fire and told stories, and the thunder did not sound so loud anymore.
  All night, they sang songs, [louder than the thunder|until the wind was tired].
- In the morning, the storm was over. The sun was shining, and [everything was clean|the grass was full of drops].
  When they woke up, it was quiet. A rainbow stood in the sky.
- "Now we will fix your house," said {hero}. They worked [all day|for three days], and the house was as good as new.
  They went to {friend}'s house and built a new roof, [stronger than the old one|piece by piece].
+ "Next time it rains, you can come to me," said {friend}, and they both laughed.
  Since then, {hero} and {friend} sit together [whenever|each time] the wind blows hard.
""",
)

STRANGER = Plot(
    name="stranger",
    who="was kind to everyone",
    wish="[helps a stranger|is kind to a stranger]",
    key="help",
    topics=("being kind", "kindness", "helping others", "a stranger"),
    title="The Kind Stranger",
    lesson="When you help others, they will help you too.",
    helper=True,
    asks=("meet", "bag"),
    text="""
- {He} was kind to everyone.
  Everyone knew that {he} was kind.
- One hot day, {he} met {a_friend} named {friend} on the road. {friend} carried a heavy bag.
  One day, {a_friend} named {friend} came up the road with a very big bag. {hero} had never seen {f_him} before.
+ "I still have a long way to go," said {friend}, "and I am so tired."
  {friend} stopped after every step. "This bag is too heavy for me," {f_he} said.
- "I can help you," said {hero}, and {he} took the bag. They walked together [for an hour|until noon].
  "Let me help you," said {hero}. {He} carried the bag all the way [to the next village|over the hill].
- "Thank you," said {friend}. {F_he} gave {hero} a [tiny|small] bell. "Ring it if you need me."
  When they were there, {friend} took out a small bell. "If you need help, ring this bell," {f_he} said.
+ {hero} thanked {friend}, put the bell in {his} pocket and [forgot it|went home].
  {hero} did not think that such a small bell could be of much use, but {he} kept it.
- Then winter came. One evening, {hero} fell into a deep hole [in the snow|in the ground].
  Many weeks later, {hero} was out alone in the [fog|snow] and fell into a hole.
+ {He} tried to climb out, but the walls were too [steep|high]. "Help!" {he} called, but nobody heard {him}.
  The hole was deep, and the night was cold. "Who can help me now?" thought {hero}.
- Then {he} remembered the bell. Ding, ding, ding! {He} rang it as loud as {he} could.
  At last {he} thought of the bell. {His} cold fingers shook, but {he} rang it.
- Soon a face looked down. It was {friend}! {F_he} had a long rope and pulled {hero} out.
  It did not take long, and {friend} was there with a rope. Up, up, up came {hero}.
- "You helped me, and now I helped you," said {friend} with a smile. They were friends from that night on.
  "You came!" said {hero}. "Of course," said {friend}. "You helped me first."
""",
)

SKILL = Plot(
    name="skill",
    who="wanted to learn to {skill}",
    wish="[learns to {skill}|wants to {skill}|cannot {skill}|wants to learn to {skill}]",
    key="{skill_word}",
    topics=("learning something", "not giving up", "practice"),
    title="{Hero} Learns to {Skill}",
    lesson="Do not give up, and you will get better every day.",
    helper=True,
    asks=("learn", "teacher"),
    text="""
- {He} wanted to learn to {skill}.
  More than anything, {he} wanted to {skill}.
- But each time {he} tried, it went all wrong. "I cannot do it," said {hero}.
  {He} tried it on Monday, and {he} tried it on Tuesday, but it never went well.
+ Some [geese|children] saw it and laughed. {hero} went red and ran away.
  "You will never {skill}," said a [crow|neighbor], and {hero} was very sad.
- Then {he} met {a_friend} named {friend}, who could {skill} very well.
  Behind the house {he} met {a_friend} named {friend}. "I can {skill}," said {friend}. "I will show you."
+ "How did you learn it?" asked {hero}. "I fell down a hundred times and got up again," said {friend}.
  "Was it easy for you?" asked {hero}. {friend} laughed. "No, I needed a whole year!"
- So they practiced every morning, in the sun and in the rain.
  From then on, they practiced together day after day.
- On the first day, it was bad. On the second day, it was a little better.
  At first {hero} made many mistakes. "That does not matter," said {friend}. "Try again."
+ {hero} was often tired, but {he} did not give up.
  Sometimes {hero} wanted to stop. But {friend} said, "One more time," and {he} tried once more.
- Then, one [fine|spring] day, it worked! {hero} {skilled}, and {he} could not stop smiling.
  And one morning, {hero} {skilled} as if it were the easiest thing in the world.
- "Look at me!" {he} called, and everybody clapped. {friend} clapped the loudest.
  "I did it!" cried {hero}. {friend} was so proud that {f_he} [jumped up and down|had tears in {f_his} eyes].
- Soon a tiny mouse came and asked, "Can you teach me?" "Yes," said {hero}, "come and {skill} with me."
  Today {hero} teaches others to {skill}, and {he} never laughs at anyone.
""",
)

SEED = Plot(
    name="seed",
    who="found a tiny seed",
    wish="[plants a seed|finds a seed|grows {a_plant}]",
    key="{plant}",
    topics=("a seed", "waiting", "a garden", "nature"),
    title="The Tiny Seed",
    lesson="Good things need time.",
    asks=("plant", "grew"),
    text="""
- One [day|morning], {he} found a tiny seed on the path.
  One spring day, the wind blew a tiny seed in front of {his} door. So {he} found it.
- "What can this be?" {he} asked. {He} made a hole in the ground, put the seed in and gave it some water.
  {He} put the seed into the soft earth. "Grow well, little seed," {he} said.
+ Every morning, {hero} ran out to look. But there was only [brown earth|a small stone].
  {hero} waited one day and two days and three days. Nothing happened.
- "It does not grow," {he} told {a_friend} named {friend}. "I think it is dead."
  {A_friend} named {friend} came by. "Why do you look at the ground?" {f_he} asked. "I am waiting for my seed," said \
{hero}.
- "Seeds are slow," said {friend}. "You must wait and give it water."
  {friend} smiled. "It is only sleeping," {f_he} said. "Give it time."
+ So {hero} gave it water each day and sang to it each night.
  {hero} waited. When it was dry, {he} brought water, and when it was cold, {he} put leaves on the ground.
- Then, one warm morning, there was a little green leaf. "It is here!" {he} cried.
  After a long, long time, something green came out of the earth. {hero} danced around it.
- A long time passed, and it grew into {a_plant}.
  It grew in the sun, and it grew in the rain, until it was {a_plant}.
- When {friend} came again, the {plant} was full of {fruit}.
  One day, the {plant} had so many {fruit} that {hero} could not count them.
- {hero} gave a big basket of {fruit} to {friend}. "You told me to wait," {he} said. "Thank you."
  {hero} and {friend} sat next to the {plant} and looked at the {fruit}. "It was good to wait," said {hero}.
+ And when the wind blew, a tiny seed fell to the ground.
  And what did {hero} find the next spring? It was a new little seed.
""",
)

DREAM = Plot(
    name="dream",
    who="wanted to {dream}",
    wish="[wants to {dream}|dreams of this: to {dream}]",
    key="{dream_word}",
    topics=("a dream", "a wish", "a big dream"),
    title="{Hero} and the Big Dream",
    lesson="A big dream can come true if you look for a way.",
    helper=True,
    asks=("want",),
    text="""
- {He} had a big dream. {He} wanted to {dream}.
  {He} had only one wish. {He} wanted to {dream}.
- "[That is not possible|Nobody can do that]," said the others. "You are too small."
  When {he} told the others, they laughed. "How silly," they said.
+ But {hero} did not stop dreaming. {He} thought about it day and night.
  That made {hero} sad. But every night {he} had the same dream again.
- One evening, {he} sat [on a stone|on a hill] and looked up. "I want to {dream}," {he} said, "but I do not know how."
  One day, {he} stood on the roof and waved {his} arms. "I want to {dream}!" {he} shouted.
- {A_friend} named {friend} heard {him}. "I like your dream," said {friend}. "Maybe I know a way."
  Down on the path stood {a_friend} named {friend}. {F_he} did not laugh. "I will help you," said {friend}.
- "[Listen|Come with me]," said {friend}. "{Idea}."
  {friend} thought hard, and then {f_he} smiled. "{Idea}," {f_he} said.
+ They packed some [bread and cheese|nuts and apples] and went off together.
  So the two friends got ready. They [whispered and laughed|were very excited].
+ It took a long time, and they got tired. "Not yet," said {friend}. "Soon."
  {hero} could not wait. "Is it time now?" {he} asked again and again.
- And then it happened. {hero} {dreamed}.
  At last the time had come. {hero} {dreamed}.
- {He} was so happy that {he} could not speak. {friend} stood [next to {him}|by {his} side] and smiled.
  "It is even better than in my dream," said {hero} [softly|in a low voice].
+ When the others heard about it, they did not laugh anymore.
  On the way home, {hero} asked, "And what is your dream, {friend}?" And a new story began.
""",
)

BUILD = Plot(
    name="build",
    who="wanted to build {a_build}",
    wish="[builds {a_build}|wants to build {a_build}]",
    key="{build}",
    topics=("building something", "teamwork", "hard work"),
    title="{Hero} Builds {A_Build}",
    lesson="Work is easier when you do it together.",
    helper=True,
    asks=("build", "helped_build"),
    text="""
- {He} wanted to build {a_build}.
  {He} had a plan. {He} wanted to build {a_build}.
- "Then I can {purpose}," {he} said.
  {He} wanted to {purpose}, and for that {he} needed {a_build}.
- {hero} took some wood and some [rope|string] and worked all day.
  One [fine |]morning, {hero} got up early and started. {He} [hummed a song|worked hard] until the sun went down.
- But in the night the wind came, and the {build} fell apart.
  But when it was done, crack! It broke into a hundred pieces.
+ {hero} sat in front of the mess. "I will never build {a_build}," {he} said.
  "All that work for nothing!" said {hero}, and {he} kicked a stone.
- {A_friend} named {friend} looked over the fence. "What was that?" {f_he} asked. "It was my {build}," said {hero}.
  Then {a_friend} named {friend} came along and [looked at the mess|stopped in front of the house].
- "I know how to make [good|strong] knots," said {friend}. "Let us try it together."
  "You have the wood, and I have [strong nails|a good hammer]," said {friend}. "Let us be a team."
- So {hero} held the wood, and {friend} tied it with rope. Bit by bit, it grew.
  One held and one pulled, one sang and one laughed. The work was much easier now.
- After [three days|a week], the {build} stood in front of them. It was strong and [beautiful|a little crooked].
  At last it was done. They shook it, they jumped on it, and the {build} did not break.
- "Now we can {purpose}," said {hero}, and that is just what they did.
  "You first," said {hero}. "No, both of us," said {friend}. And then they could {purpose} at last.
+ {hero} and {friend} painted their names on the {build}, one on each side.
  It was the best {build} {at}, for two friends had built it.
""",
)

PLOTS = (SHARE, STORM, STRANGER, SKILL, SEED, DREAM, BUILD)

"""Plots that turn on a feeling: fear, wonder, being lost, being alone, and not being able to sleep."""

from __future__ import annotations

from .story_plot import Plot

FEAR = Plot(
    name="fear",
    who="was afraid of {fear}",
    wish="[is afraid of {fear}|is scared of {fear}|overcomes {his} fear of {fear}]",
    key="{fear_word}",
    topics=("being brave", "courage", "fear", "being afraid"),
    title="{Hero} Is Brave",
    lesson="Being brave means that you are afraid and still do what is right.",
    asks=("afraid", "rescued"),
    text="""
- {He} was afraid of {fear}.
  There was one thing that {he} did not like at all. {He} was afraid of {fear}.
- When the others went out to play, {hero} stayed [at home|in bed]. "I am not brave," {he} said.
  The others often laughed about it, and then {hero} [hid|cried] under the table.
- {His} only friend was {a_friend} named {friend}, who never laughed at {him}.
  Only {a_friend} named {friend} did not laugh. "Everyone is afraid of something," said {friend}.
- One evening, {hero} heard a cry. "Help! Help me!" It was {friend}'s voice.
  Then one day, {friend} did not come home. {hero} heard a voice far away. "Help!" it called.
- {friend} was {f_where} and could not get back alone.
  {hero} ran outside. {friend} was {f_where}, and {f_he} had hurt {f_his} leg.
- {f_way} {hero} began to shake.
  {f_way} {hero} wanted to turn around and run.
+ "I cannot do it," {he} thought. But there was nobody else [around|who could help].
  {His} heart went boom, boom, boom. But then {he} thought of {friend}, all alone.
- {hero} took a deep breath. "I am coming, {friend}!" {he} called.
  "[One step|Just one step]," said {hero} to {himself}, "and then one more."
- {He} closed {his} eyes for a moment, and then {he} {face}.
  And then {hero} did it. {He} {face}.
- {hero} took {friend} by the arm and brought {f_him} home.
  Soon {he} reached {friend}. "You came!" said {friend}, and slowly they went home together.
- "Were you not afraid?" asked {friend}. "Yes, I was," said {hero}, "but I went anyway."
  "You are the bravest of all," said {friend}. {hero} smiled. {He} was not so afraid of {fear} anymore.
""",
)

NOISE = Plot(
    name="noise",
    who="heard a strange noise at night",
    wish="[hears a strange noise|hears a noise at night]",
    key="noise",
    topics=("a strange noise", "a mystery", "a secret"),
    title="The Noise in the Night",
    lesson="Many scary things are not scary when you look at them closely.",
    helper=True,
    asks=("noise",),
    text="""
- One night, {he} heard a strange noise.
  One dark night, {he} woke up from a strange noise.
- "{Noise}," it went. {hero} pulled the blanket over {his} head.
  {He} sat up in bed and listened. "{Noise}," it went. Then it was quiet again.
+ "Is it a ghost?" {he} thought. "Or a monster?" {He} did not sleep at all.
  {hero} thought of monsters with long teeth. {He} lay awake until the morning.
- The next day, {he} told {a_friend} named {friend} about the noise.
  In the morning, {he} went to see {a_friend} named {friend}. "There is a monster in my house," {he} said.
- "I do not believe in monsters," said {friend}. "Tonight I will stay with you."
  {friend} [thought about it|scratched {f_his} head]. "We must find out what it is," {f_he} said.
- So that night, they sat in the dark and waited. They had a small lamp with them.
  When it got dark, the two friends sat side by side [under a blanket|behind the bed] and did not say a word.
- Then it came again. "{Noise}!" The noise came from {n_where}.
  Suddenly they heard it. "{Noise}!" "It comes from {n_where}," whispered {friend}.
+ They [held on to each other|took a deep breath] and went closer, step by step.
  {hero} took the lamp, {friend} took a broom, and slowly they went to look.
- And what did they see? It was only {n_what}!
  {hero} held up the lamp. There was no monster. It was {n_what}!
- "So that is my monster," said {hero}, and they laughed until [they fell over|their bellies hurt].
  {friend} began to laugh, and {hero} laughed too. "What a terrible monster!" {he} said.
- {n_end}, and then they went to bed. There was no more noise that night.
  {n_end}. After that, the house was quiet, and {hero} slept like a stone.
""",
)

JOURNEY = Plot(
    name="journey",
    who="liked long walks",
    wish="[gets lost|cannot find the way home|loses the way]",
    key="home",
    topics=("a journey", "the way home", "getting lost", "a long walk"),
    title="The Long Way Home",
    lesson="If you lose your way, stay calm and ask for help.",
    helper=True,
    asks=("follow", "showed"),
    text="""
- {He} liked long walks.
  {He} loved to walk [and look at the world|where {he} had never been before].
- One day, {he} saw a {color} butterfly and followed it. [It flew on and on.|Over a hill it went, and over a stream.]
  One [sunny|warm] day, a {color} butterfly flew past. {He} wanted to see where it went, so {he} followed it.
- When {he} looked around, everything was strange. {He} did not know the way home.
  Then it was gone, and {he} stood in a place {he} did not know. Where was home?
+ {He} went left, and {he} went right, but {he} always came back to the same [tree|big stone].
  The sun went down, and it got cold. {hero} felt very small under the big sky.
+ {hero} sat down. "I want to go home," {he} said, and a tear ran down {his} face.
  "Hello?" called {hero}. But only {his} own voice came back to {him}.
- "[Who is there|Are you lost]?" asked a voice. It was {a_friend} named {friend}.
  Then {he} saw a little light. {A_friend} named {friend} came out of the dark with a lantern.
- "I lost my way," said {hero}. "I live {at}."
  "I do not know how to get home," said {hero}. "My house is {at}, and it is far away."
- "Do you see that bright star?" asked {friend}. "We only have to follow it."
  {friend} pointed to the sky. "That star shows us the way," {f_he} said. "Come with me."
- They walked under the star for a long time, and {friend} [told jokes|sang a song] so that {hero} was not afraid.
  Hand in hand they went through the night, and the star was always in front of them.
- At last {hero} saw {his} own little house. "I am home!" {he} cried.
  Then they came around a corner, and there was the house. {hero} was home again.
+ They ate hot soup together, and {friend} stayed until the morning.
  "Stay for supper," said {hero}, and the two new friends ate pancakes until late at night.
""",
)

SHY = Plot(
    name="shy",
    who="had no friends yet",
    wish="[is lonely|is looking for a friend|has no friends|makes a new friend]",
    key="friend",
    topics=("friendship", "a new friend", "being lonely", "being shy"),
    title="{Hero} Finds a Friend",
    lesson="Sometimes you only have to say hello to find a friend.",
    asks=("new_friend",),
    text="""
- {He} was new there and had no friends yet.
  {He} was nice, but {he} had no friends yet.
- Every day, {he} watched the others at play. But {he} was too shy to ask, "May I play too?"
  {hero} often stood at the window. The others laughed and played, but {he} did not dare to go out.
+ "Maybe tomorrow," {he} said each evening. But when the next day came, {he} said it again.
  {He} talked to the flowers, and {he} talked to the moon. But they never answered.
- One [gray|cool] morning, {he} saw {a_friend} named {friend}, who sat all alone on a bench.
  Then one day, {a_friend} named {friend} sat down under a tree nearby. {friend} was alone too.
- "{F_he} looks as sad as I am," thought {hero}.
  {friend} drew lines in the sand and did not look up. {hero} knew that feeling well.
+ {hero} wanted to run away. But {he} stopped, turned around and took a step.
  {hero} counted to three. One, two, three! Then {he} went over, with red ears.
- "Hello," {he} said in a very small voice. "My name is {hero}."
  {He} opened {his} mouth, but first no word came out. Then {he} said, "Hello. I am {hero}."
- {friend} looked up and smiled. "I am {friend}. I wanted to say hello, but I was too shy!"
  "Hello," said {friend}. "I am so glad that you came. I did not dare to speak to you."
- Then they both had to laugh. {hero} had half an apple, and {friend} had half a cookie, so they shared.
  They began to talk, and they did not stop until the sun went down.
+ The next day, they built a castle of [sand|stones] and played that they were kings.
  From that day on, they met every morning. They ran, they jumped, and they told each other secrets.
- And when they saw somebody who was alone, they called, "Come and be our friend!"
  {hero} was not lonely anymore. All it took was one small hello to a new friend.
""",
)

SLEEP = Plot(
    name="sleep",
    who="could not sleep",
    wish="[cannot sleep|does not want to go to bed|is awake at night]",
    key="sleep",
    topics=("the night", "going to bed", "sleeping"),
    title="{Hero} Cannot Sleep",
    lesson="When you are quiet and calm, sleep comes by itself.",
    helper=True,
    asks=("song",),
    text="""
- One night, {he} could not sleep.
  It was late, and the moon was in the sky, but {he} could not sleep.
- {He} lay on the left side, and {he} lay on the right side. {He} was still awake.
  {He} closed {his} eyes, but they opened again all by themselves.
+ {He} counted [sheep|stars], one, two, three. But at a hundred {he} was [still wide awake|only hungry].
  {hero} got up and drank some warm milk. It was good, but {he} did not get tired.
- So {he} went outside. The grass was wet, and the night was very still.
  At last {he} opened the door and sat down on the steps in the moonlight.
- "Why are you awake?" asked a voice. It was {a_friend} named {friend}.
  {A_friend} named {friend} sat on the fence. "You should be in bed," said {friend}.
- "I cannot sleep," said {hero}. "My head is full of thoughts."
  "I want to sleep, but I do not know how," said {hero}.
- "Then we will listen to the night," said {friend}. "Close your eyes. What do you hear?"
  {friend} sat down next to {hero}. "The night sings a song," {f_he} said. "You only have to listen."
- {hero} listened. "I hear the wind in the leaves," {he} said softly.
  First {hero} heard nothing. Then {he} heard a cricket, and far away the sound of water.
+ "And I hear a little frog," said {friend}. "And now I hear your slow breath."
  "Breathe in and breathe out," said {friend}, "as slowly as the clouds."
- {hero} breathed in and out. {His} eyes got heavy, and {his} head sank down.
  {hero} wanted to say something, but {he} only yawned, a very big yawn.
- {friend} put a blanket around {him}. "Good night, {hero}," said {friend}. But {hero} was already asleep.
  {friend} brought {him} to bed and closed the door. And soon {hero} slept and dreamed of stars.
""",
)

PLOTS = (FEAR, NOISE, JOURNEY, SHY, SLEEP)

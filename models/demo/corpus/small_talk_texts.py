"""Our own jokes, riddles, poems and three-line poems, and the things that small talk is about."""

from __future__ import annotations

JOKES = (
    "Why was the clock always tired? It ran all day.",
    "What did the wall say to the door? You are always so open!",
    "Why did the pencil stop talking? It had made its point.",
    "Why did the tree pack its bags in autumn? It was time to leave.",
    "Why was the computer cold? It left a window open.",
    "Why is the river so rich? It has two banks.",
    "Why did the chair go to bed early? Its legs were tired.",
    "Why do shoes never feel lonely? They always come in pairs.",
    "Why did the lamp win the race? It was very light.",
    "How did the snowman feel after the party? Very cool.",
    "Why did the tiny model go to the kitchen? It wanted one more byte.",
    "Why was the map so calm? It always knew where it was.",
)

RIDDLES = (
    ("I have hands, but I cannot clap. What am I?", "a clock"),
    ("I have four legs, but I cannot walk. What am I?", "a table"),
    ("I have many teeth, but I never bite. What am I?", "a comb"),
    ("I have a neck, but I have no head. What am I?", "a bottle"),
    ("I get wet when I make you dry. What am I?", "a towel"),
    ("I have many leaves, but I am not a tree. What am I?", "a book"),
    ("I walk with you in the sun, but I leave you at night. What am I?", "your shadow"),
    ("I fall from the sky, but I am never hurt. What am I?", "the rain"),
    ("I get smaller the more light I give. What am I?", "a candle"),
    ("I have many keys, but I open no door. What am I?", "a piano"),
    ("I run all day, but I have no feet. What am I?", "a river"),
    ("I am full of holes, but I can hold water. What am I?", "a sponge"),
)

POEMS = {
    "the sea": "The sea is wide, the sea is blue,\nit sings a song for me and you.\n"
    "The waves come in, the waves go out,\nand little fish swim all about.",
    "the rain": "The rain is falling, drop by drop,\non every house and garden top.\n"
    "It gives the thirsty trees a drink,\nand I sit still inside and think.",
    "a cat": "The cat is sleeping on my chair,\nthe sun is warm upon her hair.\n"
    "She opens up one eye to see\nif there is fish for her from me.",
    "the night": "The night is quiet, dark and deep,\nand all the birds have gone to sleep.\n"
    "The moon looks in and says to me:\nsleep well, my friend, till half past three.",
    "spring": "The snow is gone, the grass is green,\nthe nicest days that I have seen.\n"
    "A bird is singing in the tree,\nand spring has come for you and me.",
    "summer": "The days are long, the sun is high,\nthere is no cloud in all the sky.\n"
    "We swim and play, we run and run,\nfor summer days are made for fun.",
    "autumn": "The leaves are yellow, brown and red,\nthey fall upon the garden bed.\n"
    "The autumn wind is cold and strong\nand sings the trees an autumn song.",
    "winter": "The winter snow is soft and white,\nit fell upon the town at night.\n"
    "We build a man with hat and nose,\nand run inside to warm our toes.",
    "a dog": "My dog is small, my dog is fast,\nand when we run, then I am last.\n"
    "He brings the ball back from the lake\nand wags his tail for one more cake.",
    "the moon": "The moon is round, the moon is bright,\na silver lamp for all the night.\n"
    "It looks at me, I look at it,\nand so we talk a little bit.",
    "the sun": "The sun gets up, the sky is red,\nit tells me: friend, get out of bed!\n"
    "It walks the sky the whole day through\nand says good night to me and you.",
    "a tree": "I know a tree beside the lane,\nit gives me shade, it stops the rain.\n"
    "A hundred birds have sat in it,\nand I may come and rest a bit.",
    "love": "Love is a light, love is a song,\nit makes us kind, it makes us strong.\n"
    "It costs no gold, it needs no art,\nit only needs an open heart.",
    "friends": "A friend will laugh, a friend will stay\nwhen all the sun has gone away.\n"
    "We share our bread, we share our fun,\nand friends are two who feel like one.",
    "a bird": "A bird was sitting on the wall,\na little bird, so brown and small.\n"
    "It sang a song, then off it flew,\nand now I sing that song to you.",
    "a computer": "My computer hums the whole day long,\na quiet, warm and gentle song.\n"
    "It thinks so fast, it does not play,\nand goes to sleep at end of day.",
}

THREE_LINES = {
    "the sea": "Waves on the gray stones,\nthey come and they go again.\nThe sea never sleeps.",
    "the rain": "Rain on the window.\nThe garden drinks and is still.\nI drink my warm tea.",
    "a cat": "A cat in the sun\nopens one eye, then sleeps on.\nThe day can wait now.",
    "the night": "The town is quiet.\nOne small lamp is still awake.\nThe night walks past it.",
    "spring": "Snow turns to water.\nA green leaf looks at the sun.\nSpring is at the door.",
    "summer": "Warm grass and blue sky.\nA bee goes from bloom to bloom.\nSummer takes its time.",
    "autumn": "One more yellow leaf\nlets go and falls to the ground.\nAutumn says goodbye.",
    "winter": "White snow on the road.\nNo one has walked here today.\nWinter holds its breath.",
    "the moon": "The moon on the lake,\na round lamp in the water.\nA fish swims through it.",
    "a tree": "An old tree stands still.\nThe wind tells it of far lands.\nIt does not want them.",
}

COPIED_POEM = (
    "I thought of {thing} one quiet day,\nand all my troubles went away.\n"
    "If you think of {thing} too,\nthe sky may soon be bright and blue."
)
"""For what there is no poem about."""

POEM_THINGS = (
    "tea;coffee;bread;cheese;a house;a train;a boat;a car;a star;a flower;a fish;a horse;a mouse;a school;a book;"
    "snow;the wind;the sky;the stars;the mountains;a lake;a river;the forest;a garden;music;time;home;work;sleep;"
    "dreams;my mother;my father;my sister;my brother;my teacher;a robot;a dragon;a king;a pirate;a bike;a cake;"
    "a cookie;apples;pizza;soup;a chair;a shoe;a hat;a clock;a phone;the city;a street;a bridge;an old man;a baby;"
    "birthdays;the beach;a lamp;a ghost;a bear;a bee;a frog;a pig;a cow;a rabbit;football;dancing;painting;a window;"
    "clouds"
).split(";")

ACTIVITIES = (
    "painting;swimming;running;reading;cooking;dancing;singing;baking;drawing;hiking;writing;cycling;fishing;sailing;"
    "climbing;skiing;walking;traveling;sleeping;camping;gardening;riding my bike;playing chess;playing football;"
    "playing tennis;playing the piano;playing the guitar;playing cards;playing games;learning languages;"
    "taking photos;watching films;watching birds;listening to music;building models;making bread;making music;"
    "going to school;going for a walk;looking at the stars;talking to people;helping people;working in the garden;"
    "working with wood;driving;jumping;knitting;sewing;reading in bed;sitting by the fire;walking in the rain;"
    "swimming in the sea;music;chess;football;tennis;math;history;art;science;school;my work;my job;nature;tea;"
    "coffee;green tea;pizza;chocolate;cheese;bread;rice;soup;ice cream;apple juice;fish;honey;milk;rain;snow;summer;"
    "winter;spring;autumn;the sea;the forest;the moon;the night;my school;my home;my town;my garden;my bike;poetry;"
    "old music;loud music;quiet music;cold water;warm milk;hot tea;fresh bread;sweet tea;dark chocolate;"
    "the smell of coffee;the color red"
).split(";")
"""What one can like, as one thing."""

PLURALS = (
    "trains;dogs;cats;books;games;birds;horses;flowers;trees;robots;computers;stars;boats;planes;cars;bikes;apples;"
    "bananas;cookies;cakes;pancakes;potatoes;eggs;songs;films;stories;riddles;poems;letters;maps;clocks;shoes;hats;"
    "houses;gardens;mountains;rivers;lakes;islands;parties;holidays;puzzles;pictures;stones;shells;spiders;frogs;"
    "bees;rabbits;sheep;goats;foxes;wolves;bears;elephants;lions;tigers;whales;parrots;insects;plants;clouds;candles;"
    "toys"
).split(";")
"""What one can like, as many things."""

ADJECTIVES = (
    "old;new;big;small;little;red;blue;green;black;white;yellow;fast;slow;quiet;loud;wild;strange;funny;colorful;tiny"
).split(";")

PETS = (
    "cat;dog;rabbit;horse;fish;bird;parrot;mouse;hamster;turtle;snake;goat;pony;chicken;duck;pig;frog;spider;lizard"
).split(";")

PLAIN_WORDS = (
    "cat dog sun moon tree book door hand milk rain snow fish bird ship blue green red small big old new cold "
    "warm fast slow happy quiet open paper water apple bread table chair house garden river mountain window "
    "letter music summer winter morning evening night star stone sand leaf horse mouse train car boat road city "
    "town school friend mother father sister brother child king queen robot computer model lamp clock key box bag "
    "shoe hat coat cup plate spoon pizza soup cake tea coffee salt sugar honey lemon orange banana nose eye ear "
    "foot arm leg head heart dream song game ball story poem word name day week year time light dark high low "
    "left right up down yes no please thanks good"
).split()

NOUNS = (
    "cat dog moon tree book door hand fish bird ship table chair house garden river mountain window letter horse mouse "
    "train car boat road city town school friend king queen robot computer clock key box bag shoe hat coat cup spoon"
).split()

SENTENCES = (
    "the cat is on the {noun};my {noun} is {adjective};this is a test;I like my {noun};good morning to all of you;"
    "where is the {noun};I am not a {noun};we see my {adjective} {noun};look at the {adjective} {noun};hello world;"
    "one two three;{made} is here;my name is {made};{made} and {made} are friends;I live in {made};all is well;"
    "the {noun} is {adjective} and the {noun} is {adjective};please open the {noun};I am a robot;good night {made};"
    "time to go home;you can do it;I love {noun};{made} likes the {adjective} {noun};happy birthday {made};"
    "long live {made};never give up;welcome to {made};tomorrow is a new day;I will be back soon;the {noun} of {made};"
    "no more {noun}"
).split(";")
"""What one can be asked to repeat."""

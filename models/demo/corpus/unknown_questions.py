"""What a tiny model can't know: questions and requests about the whole world, and what they are about."""

from __future__ import annotations

from .small_talk_phrases import phrasings

QUESTIONS = phrasings(
    """What is the capital of {place}? / Capital of {place} / Which city is the capital of {place}? / Tell me the
    capital of {place}. / Where is {place}? / Where is {place} on the map? / How many people live in {place}? / What is
    the population of {place}? / How big is {place}? / How far is it from {place} to {other_place}? / Which language do
    people speak in {place}? / What is the longest river in {place}? / What is the highest mountain in {place}? / Is
    {place} bigger than {other_place}? / Tell me about {place}. / Is {place} a country? / What do you know about
    {place}? / What is the flag of {place}? / What can I see in {place}? / Plan a trip to {place}. / How do I get to
    {place}? / What money do they use in {place}? / Which countries are next to {place}? / Name three cities in {place}.
    / Is it nice in {place}? / Which ocean is near {place}? / What is {place} famous for? / What is {place} known for? /
    Is {place} known for [food|music|art]? / Could you tell me about {place}? / Who lives in {place}? / Who is {person}?
    / Who was {person}? / Tell me about {person}. / When was {person} born? / Where was {person} born? / When did
    {person} die? / How old is {person}? / What did {person} do? / What is {person} famous for? / Is {person} married? /
    Where does {person} live? / What did {person} write? / Do you know who {person} is? / What is the phone number of
    {person}? / What is the address of {person}? / How rich is {person}? / Is {person} still alive? / Who is the wife of
    {person}? / {person}? / What is the email of {person}? / Which films did {person} make? / What do you think of
    {person}? / Give me facts about {person}. / Who is the [president|king|queen|leader|head] of {place}? / Who rules
    {place}? / Who won the [last|first|] election in {place}? / When did [the war in {place}|the war of {place}]
    [start|end]? / Who started the war in {place}? / Why was there a war in {place}? / What happened in {year}? / What
    happened in {place} in {year}? / Who was [king|queen|president] of {place} in {year}? / Tell me about the history of
    {thing}. / What is the history of {place}? / Who discovered {thing}? / Who invented {thing}? / When was {thing}
    invented? / Where does {thing} come from? / Who made the first {one}? / How old is the oldest {one}? / What is
    {thing}? / What's {thing}? / Explain {thing} [to me|]. / Can you explain {thing}? / What does {thing} mean? / How
    does {thing} work? / How does a {one} work? / Explain how {thing} works. / Explain how a {one} works. / Why is
    {thing} important? / Why do we need {thing}? / Why do people [like|fear|study|want] {thing}? / What is {thing} made
    of? / How is a {one} made? / How do you build a {one}? / How do I [fix|repair|build|buy|clean|sell] a {one}? / What
    is inside a {one}? / How much does a {one} [cost|weigh]? / What is the price of a {one}? / Which {one} should I buy?
    / Could I build a {one} at home? / Is a {one} allowed at school? / How do people use a {one} at home? / What is the
    best {one}? / Where can I buy a {one}? / What is the difference between {thing} and {other_thing}? / Is {thing}
    better than {other_thing}? / Compare {thing} and {other_thing}. / {thing} or {other_thing}, which is better? / What
    do you know about {thing}? / Tell me [something|everything|more] about {thing}. / Teach me {thing}. / I want to know
    more about {thing}. / Give me [facts|information] about {thing}. / Facts about {thing} / What are the [rules|laws]
    of {thing}? / [Define|Definition of] {thing} / Give me a definition of {thing}. / How does {thing} affect
    {other_thing}? / Is {thing} dangerous? / Why is the sky blue? / Why is [the grass green|the sea salty|ice cold|fire
    hot|blood red|the sun hot]? / Why do [birds sing|cats purr| leaves fall|stars shine|we sleep|people dream|fish
    swim|planes fly|ships float]? / How do [birds|planes] fly? / How far away is [the moon|the sun|{planet}]? / How hot
    is [the sun|{planet}]? / How big is {planet}? / How many moons does {planet} have? / Is there life on {planet}? /
    How fast is [light|sound|a rocket|a {one}]? / How deep is the [sea|ocean]? / How old is the [earth|world|sun]? / How
    many [stars|planets|countries|animals|languages] are there [in the world|]? / What is the
    [biggest|smallest|fastest|oldest] [animal| country|city|planet|fish|bird] [in the world|]? / What is the chemical
    [formula|symbol] of [water|salt|gold|iron|sugar]? / Where do [dogs|lions|whales|elephants|tigers] [come from|live]?
    / What do [lions|whales|frogs|spiders|elephants|bees] eat? / How long does [an elephant|a dog|a tree|a whale] live?
    / What is {disease}? / How do I treat {disease}? / What helps against {disease}? / I have {disease}, which medicine
    should I take? / Is {disease} dangerous? / What are the signs of {disease}? / Can a doctor cure {disease}? / What
    causes {disease}? / How many pills should I take for {disease}? / Is it legal to {deed} in {place}? / Is it allowed
    to {deed}? / Are people allowed to {deed} in {place}? / Can I go to prison if I {deed}? / What does the law say
    about {thing}? / Which law is about {thing}? / Can my boss fire me? / How do I pay my taxes? / How much tax do I pay
    in {place}? / Write a contract for a {one}. / What is in the news [today|]? / What happened [today|yesterday|last
    night|this week] [in the world|in {place}|]? / Latest news / News [today|] / Tell me the [latest|] news [from
    {place}|about {thing}|]. / What is the news about {thing}? / What is today's date? / What date is it [today|]? /
    What day is it today? / Which year is it [now|]? / What time is it [now|in {place}|]? / Tell me the time. / What's
    the time? / Time in {place} / Today's date / What is the weather [today|tomorrow|in {place}|like in {place}|like
    today]? / Will it rain [today|tomorrow|in {place}]? / How warm is it in {place}? / How is the weather [today|in
    {place}|tomorrow]? / Weather in {place} / Is it cold in {place}? / Do I need an umbrella today? / Who won the
    [game|match|race|world cup] [yesterday|last night|in {year}|]? / Who won the world cup in {year}? / Who is the best
    [football|tennis|chess] player [in the world|]? / What was the score of the game? / When does {team} play? / Did
    {team} win? / Which team is the best? / Who plays for {team}? / Explain the rules of [football|tennis|golf|chess]. /
    Write a {code} [function| program|script] [that sorts a list|that adds two numbers|to read a file|for a {one}|]. /
    How do I [sort a list|read a file|write a loop|open a file] in {code}? / Write code [in {code}|] for a {one}. / Fix
    this {code} code. / What is wrong with my {code} code? / Code a {one} in {code}. / What is a [class|loop|function]
    in {code}? / Is {code} better than other languages? / Write a [website|web page| game|bot] in {code}. / Can you
    program in {code}? / Debug my program. / Translate {word} [into|to] {language}. / How do you say {word} in
    {language}? / What is {word} in {language}? / Translate this [text|sentence] into {language}. / Say something in
    {language}. / What is the
    {language} word for {word}? / Write an essay about {thing}. / Write a [long|five page] [essay|text|report|article]
    [about|on] {thing}. / Write a speech about {thing}. / Write my homework about {thing}. / Do my homework. / Write a
    letter to my [boss|bank|landlord]. / Write an email to {person}. / Write a book about {thing}. / Sum up the book
    about {thing}. / Make a plan for my business. / What is {big} times {other_big}? / {big} * {other_big} / {big} x
    {other_big} / How much is {big} times {other_big}? / What is {big} plus {other_big}? / {big} + {other_big} / What is
    {big} minus {other_big}? / What is {big} divided by {other_big}? / {big}/{other_big} / Multiply {big} by
    {other_big}. / What is the square root of {big}? / Square root of {big} / Calculate {big} times {other_big}. / Solve
    this equation: {big} x = {other_big} / Is {big} a prime number? / What is pi? / How many digits does pi have? / How
    do I [cook|make|bake] {dish}? / Recipe for {dish} / Give me a recipe for {dish}. / What do I need for {dish}? / How
    long do I cook {dish}? / I want to cook {dish}. / How many calories are in {dish}? / What is in {dish}? / Is {dish}
    healthy? / What should I cook [today|for dinner]? / Which film should I watch? / Who plays in the film {title}? /
    Tell me about the movie {title}. / What is the movie {title} about? / Who wrote the book {title}? / Have you read
    {title}? / Who sings the song {title}? / How does the film {title} end? / Is {title} a good [book|movie|series]? /
    Give me the lyrics of {title}. / When did the movie {title} come out? / What is the meaning of life? / What is the
    [sense|goal] of life? / Is there a god? / What is [truth|love| time|freedom|justice|art]? / Do we have a free will?
    / What happens after death? / Why are we here? / Why is there something and not nothing? / Is the world real? / What
    is good and what is evil? / What is my [password|address|phone number|email|birthday|job]? / Where do I live? / How
    old am I? / What did I do yesterday? / Where are my keys? / What is my [mother|father|sister|brother|dog] called? /
    How much money do I have? / When is my birthday? / Where am I [now|]? / What is the price of {stock}? / Stock price
    of {stock} / Should I buy {stock}? / How much is {stock} worth [today|]? / Will {stock} go up? / How do I get rich?
    / Where should I put my money? / How many dollars is one euro? / How much is gold? / Who will win the election? / Is
    {place} going to win the war? / What is going to happen [tomorrow|in {year}]? / Is it going to rain? / Will it be
    [cold|warm|sunny] [today|tomorrow] in {place}? / Could {person} be the next president? / What will happen in {year}?
    / Which [party|president] is the best? / Who should I vote for? / What is the best [phone|car|laptop|bank|school]? /
    Search the web for {thing}. / Look up {thing}. / Find {thing} on the internet. / Open {title} in my browser. / Send
    an email to {person}. / Call {person}. / Play the song {title}. / Book a table in {place}. / Buy me a {one}. / Set
    an alarm. / Turn on the light. / Show me a picture of {thing}. / Draw a {one}. / Make a picture of {place}. / I need
    information on {thing}. / I have a question about {thing}. / Please help me with {thing}. / Do you know anything
    about {thing}? / Are you an expert on {thing}? / Have you heard of {place}? / Give me a list of
    [kings|rivers|cities] in {place}. / List all [planets|countries|presidents]. / How can I become [a doctor|a pilot|a
    lawyer|famous|a teacher]? / {thing}? / {thing} / What about {thing}? / Summarize the news about {place}. / How do
    scientists study {thing}? / Why did {person} leave {place}? / When did {person} come to {place}? / Who built the
    {one} in {place}? / Are there lions in {place}? / What do people eat in {place}? / In which year was {thing}
    discovered? / In which country is {place}?""",
    """Can you tell me the capital of {place}? / Do you know where {place} is? / How many cities are there in {place}? /
    Which mountain in {place} is the highest? / Please tell me who {person} is. / In which year was {person} born? /
    What was {person} known for? / When was the war in {place}? / Who was the first president of {place}? / Do you know
    who invented the {one}? / Please explain to me how {thing} works. / What is {thing} and why is it important? / What
    should I know about {thing}? / Which is better, {thing} or {other_thing}? / How much money does a {one} cost? / Why
    do stars shine at night? / How far is {planet} from the sun? / Which medicine helps against {disease}? / Am I
    allowed to {deed} in {place}? / What is new in the world today? / Can you tell me what time it is? / What will the
    weather be like tomorrow in {place}? / Did {team} win the match yesterday? / Can you write a {code} program for me?
    / How do I write a function in {code}? / Please translate {word} to {language}. / Could you write a long essay on
    {thing}? / How much is {big} divided by {other_big}? / Can you calculate the square root of {big}? / What is a good
    recipe for {dish}? / How do you make {dish} at home? / Who made the movie {title}? / What is life about? / Do you
    know my phone number? / Is it a good time to buy {stock}? / Who is going to win the election in {place}? / Can you
    look up {thing} on the web?""",
)

COUNTRIES = (
    "France;Germany;Italy;Spain;Portugal;Greece;Poland;Norway;Sweden;Finland;Denmark;Austria;Hungary;Ireland;England;"
    "Scotland;Iceland;Russia;Turkey;Egypt;Kenya;Nigeria;Ghana;Morocco;India;China;Japan;Korea;Vietnam;Thailand;Nepal;"
    "Mongolia;Iran;Iraq;Israel;Canada;Mexico;Cuba;Brazil;Chile;Peru;Argentina;Australia;America;Africa;Asia;Europe;"
    "London;Paris;Berlin;Rome;Madrid;Vienna;Tokyo;New York;Boston;Chicago;Sydney;Moscow;Cairo;Delhi;Oslo;Lisbon;Texas"
).split(";")
FIRST_NAMES = (
    "Anna;Ben;Carla;David;Emma;Frank;George;Helen;Ivan;Julia;Karl;Laura;Martin;Nina;Oscar;Paul;Rita;Simon;Tina;"
    "Victor;Maria;Peter;John;Mary;James;Alice;Robert;Sarah;Thomas;Lucy"
).split(";")
KNOWN_PEOPLE = (
    "Albert Einstein;Isaac Newton;Napoleon;Mozart;Beethoven;Shakespeare;Cleopatra;Julius Caesar;Marie Curie;Picasso;"
    "Charles Darwin;Abraham Lincoln;Gandhi;Galileo;Columbus;Aristotle;Plato;Socrates;Ada Lovelace;Alan Turing"
).split(";")
THINGS = (
    "gravity;electricity;light;energy;the atom;physics;chemistry;biology;mathematics;philosophy;politics;democracy;"
    "religion;economics;inflation;medicine;surgery;the brain;the heart;blood;the moon landing;the universe;"
    "a black hole;evolution;climate change;the weather system;the ocean;a volcano;an earthquake;a tornado;"
    "the ice age;dinosaurs;Roman history;the Middle Ages;the French Revolution;the Cold War;world war two;slavery;"
    "the internet;radio;television;a steam engine;nuclear power;solar power;wind power;oil;gold;iron;glass;"
    "paper money;the stock market;banking;taxes;insurance;modern art;classical music;opera;jazz;poetry of old times;"
    "football history;the Olympic Games;astronomy;geology;psychology;law;human rights;war;peace;marketing;farming;"
    "space travel;rockets;satellites;robots in space;quantum physics;genetics;DNA;a virus;bacteria;vaccines;vitamins;"
    "sharks;the Roman Empire;pyramids;castles;knights;vikings;pirates of old times;photosynthesis;magnetism;algebra;"
    "geometry;the human body;the theory of relativity;cryptography;blockchain;electric cars;architecture;fashion;"
    "photography"
).split(";")
ONES = (
    "computer;telephone;car;bike;plane;train;ship;rocket;radio;camera;clock;washing machine;fridge;motor;battery;"
    "bridge;tower;house;castle;laptop;phone;printer;lamp;telescope;microscope;robot;piano;guitar;violin;truck;"
    "drone;calculator;generator;submarine;helicopter;microwave;satellite;dam;tunnel;factory;church;museum;website;"
    "toaster"
).split(";")
DISEASES = (
    "a headache;the flu;a fever;cancer;diabetes;a cough;back pain;asthma;malaria;a broken leg;a toothache;"
    "high blood pressure;an allergy;a cold;stomach pain;measles;a heart attack;depression;a skin rash;poisoning"
).split(";")
DEEDS = (
    "park on the street;drive without a license;sell my car;copy a film;open a shop;build a house;carry a knife;"
    "break a contract;fly a drone;smoke in a park;own a snake;record a call;not pay my rent;cross a red light"
).split(";")
DISHES = (
    "pizza;soup;pancakes;bread;rice;pasta;lasagna;curry;apple pie;chocolate cake;cookies;fish;potato salad;an omelet;"
    "chicken;tomato sauce;sushi;a burger;dumplings;cheese cake;noodles;beans;tacos;a stew;jam"
).split(";")
WORDS = (
    "hello;good morning;thank you;house;cat;water;love;I am hungry;where is the station;dog;tree;goodbye;my friend;"
    "bread"
).split(";")
LANGUAGES = (
    "German;French;Spanish;Italian;Russian;Chinese;Japanese;Latin;Greek;Polish;Turkish;Arabic;Dutch;Swedish;Hindi;"
    "Korean"
).split(";")
CODES = "Python;Java;JavaScript;Rust;C;Go;SQL;HTML;Ruby;PHP;Swift;Kotlin".split(";")
PLANETS = "Mars;Venus;Jupiter;Saturn;Mercury;Neptune;Uranus;Pluto".split(";")
TITLE_STARTS = (
    "The Last;The Lost;The Secret;The Old;The Dark;The Red;Return of the;Night of the;Song of the;My"
).split(";")
TITLE_ENDS = "King;River;House;Garden;Star;Ship;Road;Island;Summer;City;Dream;Door;Queen;Train;Wolf;Mountain".split(";")

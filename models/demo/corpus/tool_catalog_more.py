"""Tools for ways and knowledge, and how people ask for them: restaurants, roads, trains, words, and the news."""

from __future__ import annotations

from . import tool_fillers as fill
from .name_lists import CITIES
from .tool_concept import Concept, Param

_WORDS = fill.one_of(
    *"""brave gloomy harvest lantern humble voyage ancient fragile whisper orchard puzzle rumor shelter timber vivid
wander zebra canyon meadow anchor glacier feather marble pebble harbor cradle thunder velvet honest clever""".split()
)
_KNOWN_TOPICS = fill.one_of(
    *"sports music science football chess tennis space health money schools animals art trains robots food".split(),
    *CITIES[:40],
    *("the weather", "the election", "computer games", "the economy", "electric cars", "old films"),
)
_TOPICS = fill.or_made_up(_KNOWN_TOPICS, 0.4, lower=False)
_MEANING = fill.text(
    "a kind of [small|large|old|round|soft] [animal|tool|plant|house|boat|bag|stone]|"
    "[very|not|a little] [happy|old|strong|quiet|bright|sad|quick]|to [walk|talk|work|sing] [slowly|loudly|alone]"
)

WAYS = (
    Concept(
        key="table",
        names="book_table reserve_table table_booking make_reservation restaurant_booking",
        descriptions="Book a table|Reserve a table at a restaurant|Restaurant reservation",
        params=(
            Param("restaurant place name", fill.restaurant, "the restaurant|where"),
            Param("people guests persons seats", fill.number(2, 15), "how many people", type="integer"),
            Param("time at when hour", fill.clock, "the time|when"),
        ),
        train="""[book|reserve|get] a table at {restaurant} for {people} people at {time}
[book|reserve|get] a table for {people} at {restaurant} at {time}
[book|reserve] a table at {restaurant} at {time} for {people}
[book|reserve] a table for {people} people at {time} at {restaurant}
[book|reserve] {restaurant} for {people} at {time}
[Table|A table] for {people} at {restaurant}, {time}
[Table|A table|Reservation] at {restaurant}, {people} people, {time}
{restaurant}, {people} people, {time}
I [want|need|would like] a table for {people} at {restaurant} at {time}
We are {people} people and want to eat at {restaurant} at {time}
We want to eat at {restaurant} at {time}. We are {people} people
make a reservation at {restaurant} for {people} at {time}
make a reservation for {people} people at {restaurant}, at {time}
I want to [book|reserve] a table at {restaurant} for {people} people at {time}
At {time}, we need a table for {people} at {restaurant}
[save|keep|hold] {people} seats at {restaurant} for {time}
help me book {restaurant} for {people} at {time}
There will be {people} of us at {restaurant} at {time}. [Book|Reserve] it
Is there [room|space|a free table] for {people} at {restaurant} at {time}?
let us dine at {restaurant}, {people} [people|guests], at {time}
make sure we have a table at {restaurant} at {time}, {people} [seats|chairs|guests]
I am [meeting|inviting] friends at {restaurant} at {time}. A table for {people}, please
{people} [seats|places] at {restaurant} at {time}, please
Lunch for {people} at {time}: {restaurant}
arrange [lunch|dinner] for {people} at {restaurant} at {time}
Our party of {people} would like to dine at {restaurant} at {time}
I wonder if {restaurant} has [room|seats] for {people} at {time}
Dinner at {restaurant} at {time} for {people}. Book it""",
        held_out="""get us a table for {people} people at {restaurant} at {time}
I want to make a reservation for {people} at {restaurant} at {time}
We need {restaurant} at {time}, for {people} people""",
        follow="at {time}|for {people} people|at {restaurant}",
        answers="The table at {restaurant} is booked for {people} people at {time}.",
        errors="no free table|restaurant is closed|restaurant not found",
    ),
    Concept(
        key="directions",
        names="get_directions directions route find_route navigate way_to",
        descriptions="Find the way|Directions to a place|Route from one place to another",
        params=(
            Param("from origin start start_point", fill.city, "where to start|the start", optional=True),
            Param("to destination end goal", fill.city, "where to go|the goal"),
        ),
        train="""How do I get [|from {from} ]to {to}?
How can I [get|go|drive] from {from} to {to}?
How do we [get|go|drive] to {to}?
[What is|What's|Which is] the [way|best way|route] from {from} to {to}?
[What is|What's] the [way|best way] to {to}?
[Directions|Route|The way|Way] [|from {from} ]to {to}
[give me|show me|get|find|tell me] [the directions|directions] to {to}
[give me|show me|get|find] [the directions|directions] from {from} to {to}
[show me|find|tell me] the [way|route|road] [|from {from} ]to {to}
[Directions|Route]: {from} to {to}
I [want|need|have] to [go|get|drive] [|from {from} ]to {to}. Show me the way
I am in {from}. How do I get to {to}?
How far is it from {from} to {to}?
How far is {to} from {from}?
[take me|bring me|guide me|navigate] to {to}
[guide me|navigate] from {from} to {to}
Which way [do I|should I|must we] take to reach {to}?
I am starting in {from} and want to reach {to}
How long does the drive from {from} to {to} take?
plan [a|my] [trip|drive|route] from {from} to {to}
help me [reach|get to] {to}[| from {from}]
lead [me|us] to {to}[| from {from}]
My [aunt|friend|doctor] lives in {to}. How do I [drive|get] there[| from {from}]?
Do you know the way [|from {from} ]to {to}?
We are driving from {from} to {to}. Where do we go?
I have to be in {to} soon. Which way is it?
{from} to {to} by [car|road], please
draw the route between {from} and {to}
Which road goes from {from} to {to}?""",
        held_out="""I need directions from {from} to {to}
What is the best road to {to}?
tell me how to get from {from} to {to}""",
        follow="to {to}|from {from} to {to}",
        answers="The way to {to} is {distance} km.|The way to {to} is {distance} km and takes {minutes} minutes.",
        result={"distance km distance_km": fill.number(2, 900), "minutes duration time": fill.number(5, 600)},
        errors="no route found|unknown place|place not found",
    ),
    Concept(
        key="trains",
        names="train_times next_train get_trains trains train_schedule find_train",
        descriptions="Find the next train|Train times between two cities|Tells when a train leaves",
        params=(
            Param("from origin departure start", fill.city, "where it leaves|the first city"),
            Param("to destination arrival end", fill.city, "where it goes|the last city"),
        ),
        train="""When is the next train from {from} to {to}?
When does the [|next ]train [|leave ]from {from} to {to}[| leave| go]?
When is there a train from {from} to {to}?
What time is the next train from {from} to {to}?
[Train|Trains|Next train|Train times] [|from ]{from} to {to}
[find|get|show me|look up|check] [the next|a] train from {from} to {to}
[show me|tell me|look up|check] the train times from {from} to {to}
Which train goes from {from} to {to}?
Is there a train from {from} to {to}?
Are there trains from {from} to {to}?
I [want|need|have] to take [the|a] train from {from} to {to}
I need a train to {to} from {from}
I am in {from} and need a train to {to}
To {to} from {from} by train
From {from} to {to} by train
How do I get from {from} to {to} by train?
I [have|need] to be in {to} today. What time does a train leave {from}?
I wonder which train [runs|leaves] from {from} to {to}
My train goes from {from} to {to}. When does it [depart|leave|start]?
At what time can I [catch|take|board] a train from {from} to {to}?
help me catch [the next|a] train from {from} to {to}
[Departures|Timetable|Rail times]: {from} to {to}
let me [know|see] the next train that [leaves|departs] {from} for {to}
find a rail connection [between {from} and {to}|from {from} to {to}]
The next train out of {from} to {to}, please
We travel from {from} to {to} by rail. When is the departure?
How soon does a train leave {from} for {to}?
I missed my train from {from} to {to}. When is the [next|following] one?
tell me when the train from {from} to {to} leaves""",
        held_out="""Do you know when the train from {from} goes to {to}?
I want to go by train from {from} to {to}
get the times of trains from {from} to {to}""",
        follow="to {to}|from {from}|from {from} to {to}|a train to {to}",
        answers="The next train from {from} to {to} leaves at {time}.|"
        "The train from {from} to {to} leaves at {time} from platform {platform}.",
        result={"time departure leaves": fill.clock, "platform track": fill.number(1, 24)},
        errors="no train today|unknown station|station not found",
    ),
    Concept(
        key="define",
        names="define_word define dictionary word_meaning lookup_word definition",
        descriptions="Define a word|Look up a word in the dictionary|Tells what a word means",
        params=(Param("word term name", fill.or_made_up(_WORDS, 0.5), "the word|word to define"),),
        train="""What does {word} mean?
What does the word {word} mean?
What is the [meaning|definition] of {word}?
What is the [meaning|definition] of the word {word}?
[define|explain] {word}
[define|explain] the word {word}
[Meaning|Definition] of {word}
[Meaning|Definition]: {word}
{word} [meaning|definition]
[look up|explain] the [word|meaning of] {word}
look up {word} in the dictionary
[tell me|explain|find out] what {word} means
[give me|tell me] the [meaning|definition] of {word}
I do not know the word {word}
I do not know what {word} means
What is meant by {word}?
I wonder what [|the word ]{word} [stands for|might mean|is]
What is {word} in [plain|simple|easy] words?
help me understand [|the word ]{word}
Somebody said "{word}". What is that?
I never heard the word {word} before
describe the [sense|meaning] of {word}
No idea what {word} is. Explain it, please
[Dictionary|Word]: {word}
What do people mean when they say {word}?
I have to explain {word} [in class|to a child|to my son]
How would you [explain|describe|define] [|the word ]{word}?
let me know the sense of [|the word ]{word}
I read the word {word}. What does it mean?""",
        held_out="""Do you know what the word {word} means?
find {word} in the dictionary
I need a definition of {word}""",
        follow="{word}|the word {word}",
        answers="The word {word} means: {definition}.",
        result={"definition meaning text": _MEANING},
        errors="word not found|no such word|dictionary is closed",
    ),
    Concept(
        key="news",
        names="get_news news latest_news headlines news_search top_news",
        descriptions="Get the news|Latest news about a topic|Headlines of today",
        params=(
            Param(
                "topic subject about category",
                _TOPICS,
                "the topic|what about",
                optional=True,
            ),
        ),
        train="""[What is|What's] [new|in the news]?
[What is|What's] the [news|latest news] [about|on] {topic}?
[What is|What's] new [about|in] {topic}?
Is there [any news|anything new] about {topic}?
[News|Latest news|Headlines|The news] [about|on] {topic}
[News|Headlines|The news|Latest news]
{topic} news
[News|Headlines]: {topic}
[show me|tell me|read|get|give me] the [|latest ]news
[show me|tell me|read me|get|give me] the [|latest ]news [about|on] {topic}
[show me|find] [news|headlines] about {topic}
What happened [|today ][with|in] {topic}?
What do the news say about {topic}?
I want [to read|to hear|some] news about {topic}
I want [to read|to hear] the news
What is happening [|today ][with|in] {topic}?
Any news[| today]?
Did anything important happen [today|this week|in the world]?
bring me up to date [on|about] {topic}
I [missed|did not read] the news[| today| this morning]. What happened?
help me keep up with {topic}
let me [read|see|hear] the [top|main|new] [stories|headlines]
I wonder what is going on [in|with] {topic}
Do you have [fresh|new|recent] stories [about|on] {topic}?
Do the papers [say|write] anything about {topic}?
The [top|main] stories of today, please
What is going on [in the world|today|out there]?
I need an update [about|on] {topic}
{topic}: what is [new|the latest]?
Any news about {topic}?""",
        held_out="""What are the latest headlines about {topic}?
I would like to hear the latest news on {topic}
look for news about {topic}""",
        follow="{topic}|about {topic}|on {topic}",
        answers="Here is the news: {headline}.|Here is the news about {topic}: {headline}.",
        result={"headline title top news": fill.text(fill.HEADLINES)},
        errors="no news found|no news today|unknown topic",
    ),
)

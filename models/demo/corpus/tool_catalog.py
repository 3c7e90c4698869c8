"""All tools, the last of them ones for numbers, ways and knowledge, and how people ask for them."""

from __future__ import annotations

from . import tool_fillers as fill
from .name_lists import CITIES
from .tool_catalog_home import HOME
from .tool_catalog_texts import TEXTS
from .tool_concept import Concept, Param

_OPERATIONS = {
    "add": ("plus", "+"),
    "subtract": ("minus", "-"),
    "multiply": ("times", "*", "multiplied by"),
    "divide": ("divided by", "/"),
}
_MONEY = fill.one_of(*"USD EUR GBP JPY CHF CAD AUD INR CNY SEK NOK PLN BRL MXN dollars euros pounds yen francs".split())
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


def _value(expression: str) -> float:
    """What an expression that we made ourselves comes to."""
    value: float = round(eval(expression, {"__builtins__": {}}), 2)
    return int(value) if value == int(value) else value


_NUMBERS_AND_WAYS = (
    Concept(
        key="calculator",
        names="calculator calculate calc compute evaluate math solve do_math",
        descriptions="Work out an expression|Calculator for numbers|Does math|Computes a result|Evaluate a sum",
        params=(Param("expression formula input query", fill.expression, "what to work out|the expression"),),
        train="""What is {expression}?
What's {expression}?
How much is {expression}?
[calculate|compute|work out|solve|evaluate] {expression}
{expression}
{expression} = ?
[Result|The result|Value] of {expression}
What is the [result|value] of {expression}?
What do I get for {expression}?
[tell me|give me] the [result|value] of {expression}
[tell me|find out] what {expression} is
[use the calculator|do the math] for {expression}
I need the result of {expression}
I [want|need] to know how much {expression} is
[What does {expression} make|What does {expression} give|Do you know what {expression} makes]?
[Quick|Math|Sum]: {expression}""",
        held_out="""How much do I get for {expression}?
[find|get] the result of {expression}
Can you work out what {expression} makes?""",
        follow="{expression}|for {expression}",
        answers="The result of {expression} is {result}.|{expression} is {result}.",
        result={"result value answer": fill.price},
        derive=lambda given: {"result": _value(str(given["expression"]))},
        errors="division by zero|bad expression|number too large",
    ),
    Concept(
        key="arithmetic",
        names="arithmetic calculator calculate math_operation calc two_numbers do_math",
        descriptions="Calculate with two numbers|Does math with a and b|Add, subtract, multiply or divide",
        params=(
            Param("a x first left", fill.amount(1, 999), "first number", type="number"),
            Param("b y second right", fill.amount(1, 999), "second number", type="number"),
            Param(
                "operation op operator",
                fill.one_of(*_OPERATIONS),
                "what to do|the operation",
                enum=tuple(_OPERATIONS),
                spoken=_OPERATIONS,
            ),
        ),
        train="""What is {a} {operation} {b}?
What's {a} {operation} {b}?
How much is {a} {operation} {b}?
[calculate|compute|work out|solve] {a} {operation} {b}
{a} {operation} {b}
{a} {operation} {b} = ?
What is the [result|value] of {a} {operation} {b}?
[The result|Result|Value] of {a} {operation} {b}
[tell me|find out] what {a} {operation} {b} is
[tell me|give me] the result of {a} {operation} {b}
I need the result of {a} {operation} {b}
What do I get for {a} {operation} {b}?
[What does {a} {operation} {b} make|Do you know what {a} {operation} {b} makes]?
I [want|need] to know how much {a} {operation} {b} is
[Quick|Math|Sum]: {a} {operation} {b}""",
        held_out="""How much do I get for {a} {operation} {b}?
[find|get] the result of {a} {operation} {b}
Can you work out what {a} {operation} {b} makes?""",
        follow="{a} {operation} {b}|for {a} {operation} {b}",
        answers="The result is {result}.",
        result={"result value answer": fill.price},
        derive=lambda given: {"result": _value(f"{given['a']} {_OPERATIONS[given['operation']][1]} {given['b']}")},
        errors="division by zero|number too large",
    ),
    Concept(
        key="currency",
        names="convert_currency exchange currency exchange_money money_converter currency_converter",
        descriptions="Convert money|Convert an amount to another currency|Exchange rates for money",
        params=(
            Param("amount value sum", fill.amount(1, 2000), "how much|the amount", type="number"),
            Param("from from_currency source", _MONEY, "currency to convert from|the first currency"),
            Param("to to_currency target", _MONEY, "currency to convert to|the other currency"),
        ),
        train="""[convert|change|exchange|turn] {amount} {from} [to|into] {to}
How much is {amount} {from} in {to}?
How much are {amount} {from} in {to}?
What is {amount} {from} in {to}?
What are {amount} {from} worth in {to}?
How many {to} [is|are] {amount} {from}?
How many {to} do I get for {amount} {from}?
How much {to} do I get for {amount} {from}?
{amount} {from} [in|to|into] {to}
{amount} {from} = ? {to}
[What|If I change it, what] do I get in {to} for {amount} {from}?
[tell me|work out] how much {amount} {from} is in {to}
give me {amount} {from} in {to}
I have {amount} {from}. How much is that in {to}?
I have {amount} {from}. How many {to} is that?
I want to [change|exchange|convert] {amount} {from} [to|into] {to}
[Exchange|Money|Convert]: {amount} {from} to {to}""",
        held_out="""What is the value of {amount} {from} in {to}?
I need {amount} {from} in {to}
If I exchange {amount} {from}, how many {to} do I get?""",
        follow="{amount}|for {amount}|{amount} {from}|in {to}|to {to}",
        answers="{amount} {from} is {result} {to}.",
        result={"result value converted": fill.price},
        errors="unknown currency|no exchange rate|bank is closed",
    ),
    Concept(
        key="units",
        names="convert_units unit_converter convert units measure_convert",
        descriptions="Convert units|Convert a value to another unit|Changes one measure into another",
        params=(
            Param("value amount number", fill.amount(1, 500), "the value|how much", type="number"),
            Param("from from_unit source", fill.one_of("km"), "unit to convert from|the first unit"),
            Param("to to_unit target", fill.one_of("miles"), "unit to convert to|the other unit"),
        ),
        together=fill.units,
        train="""[convert|change|turn] {value} {from} [to|into] {to}
How much is {value} {from} in {to}?
How many {to} [is|are] {value} {from}?
How many {to} are in {value} {from}?
What is {value} {from} in {to}?
What's {value} {from} in {to}?
{value} {from} [in|to|into] {to}
{value} {from} = ? {to}
[tell me|work out] how many {to} {value} {from} are
[tell me|work out] how much {value} {from} is in {to}
give me {value} {from} in {to}
[I have {value} {from}. How|If it is {value} {from}, how] many {to} is that?
It is {value} {from}. How much is that in {to}?
[Convert|Units]: {value} {from} to {to}
I [want|need] to convert {value} {from} to {to}
[express|write] {value} {from} in {to}""",
        held_out="""What is the value of {value} {from} in {to}?
I need {value} {from} in {to}
If I have {value} {from}, how many {to} is that?""",
        follow="{value}|for {value}",
        answers="{value} {from} is {result} {to}.",
        result={"result value converted": fill.price},
        derive=lambda given: {"result": fill.converted(given)},
        errors="unknown unit|units do not match",
    ),
    Concept(
        key="stock",
        names="stock_price get_stock_price get_stock quote share_price stock_quote",
        descriptions="Get the price of a stock|Price of a share|Stock market prices",
        params=(Param("symbol ticker stock name", fill.symbol, "the symbol|stock symbol"),),
        train="""[What is|What's] the [stock|share] price of {symbol}?
[What is|What's] the price of {symbol}[| stock| shares| today]?
How much is {symbol}[| stock] [now|today]?
How much is [a share|one share|the stock] of {symbol}?
How much does [a share of|the stock] {symbol} cost?
[Stock price|Share price|Stock|Price] of {symbol}
{symbol} [stock|stock price|share price|price|shares]
[Stock|Price|Quote]: {symbol}
[get|check|show me|tell me|look up] the [stock|share] price of {symbol}
[check|show me|look up] the stock {symbol}
[check|show me] the {symbol} stock
How is {symbol} [stock|doing on the market]?
How is the stock {symbol} doing[| today]?
What is {symbol} worth[| today]?
What do {symbol} shares cost?
I [want|need] the [stock|share] price of {symbol}
I have shares of {symbol}. What is the price?""",
        held_out="""What does one share of {symbol} cost?
give me the price of the {symbol} stock
How much are {symbol} shares worth today?""",
        follow="{symbol}|for {symbol}|the price of {symbol}",
        answers="The price of {symbol} is {price}.",
        result={"price value last": fill.price},
        errors="unknown symbol|stock not found|market is closed",
    ),
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

CONCEPTS = (*HOME, *TEXTS, *_NUMBERS_AND_WAYS)
"""Everything that a tool of the corpus can do."""

"""All tools, among them those for numbers and money, and how people ask for them."""

from __future__ import annotations

from . import tool_fillers as fill
from .tool_catalog_home import HOME
from .tool_catalog_more import WAYS
from .tool_catalog_texts import TEXTS
from .tool_concept import Concept, Param

_OPERATIONS = {
    "add": ("plus", "+"),
    "subtract": ("minus", "-"),
    "multiply": ("times", "*", "multiplied by"),
    "divide": ("divided by", "/"),
}
_MONEY = fill.one_of(*"USD EUR GBP JPY CHF CAD AUD INR CNY SEK NOK PLN BRL MXN dollars euros pounds yen francs".split())


def _value(expression: str) -> float:
    """What an expression that we made ourselves comes to."""
    value: float = round(eval(expression, {"__builtins__": {}}), 2)
    return int(value) if value == int(value) else value


_NUMBERS = (
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
I wonder what {expression} [is|comes to|adds up to]
help me [solve|with] {expression}
[The answer to|Answer to|Answer for] {expression}, please
What number is {expression}?
{expression} [comes to|equals] what?
[My homework|My task|The problem] is {expression}. What is the answer?
I have to [solve|calculate|compute] {expression}
[figure out|determine] {expression}
let me know the answer to {expression}
make sure I know what {expression} comes to
I cannot do {expression} in my head
type {expression} into the calculator
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
I wonder what number {a} {operation} {b} [is|gives]
help me [solve|with] {a} {operation} {b}
[The answer to|Answer to|Answer for] {a} {operation} {b}, please
{a} {operation} {b} [comes to|equals] what?
[My homework|My task|The exercise] is {a} {operation} {b}. What is the answer?
I have to [solve|calculate|compute] {a} {operation} {b}
[figure out|determine] {a} {operation} {b}
let me know the answer to {a} {operation} {b}
I take {a} {operation} {b}. Which number is that?
I cannot do {a} {operation} {b} in my head
make the calculator do {a} {operation} {b}
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
[swap|switch] {amount} {from} for {to}
It costs {amount} {from}. What is the price in {to}?
The [bill|ticket|hotel] is {amount} {from}. How much is this in {to}?
Do you know the price of {amount} {from} in {to}?
I wonder how much {to} {amount} {from} would be
help me [change|convert] {amount} {from} [to|into] {to}
[My friend|Somebody] owes me {amount} {from}. What would that be in {to}?
[find out|check] what {amount} {from} comes to in {to}
let me see what {amount} {from} would make in {to}
{amount} {from}, but in {to}, please
I have to pay {amount} {from}, but I only have {to}. How much do I pay?
With the rate of today, {amount} {from} [makes|gives] how many {to}?
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
I [measured|wrote down|read] {value} {from}. What is it in {to}?
Do you know what {value} {from} makes in {to}?
I wonder how many {to} {value} {from} would be
help me [turn|convert] {value} {from} [to|into] {to}
The [recipe|book|label|sign] says {value} {from}. Give me that in {to}
I only [know|use|understand] {to}. What is {value} {from}?
[find out|figure out|check] how many {to} make {value} {from}
{value} {from}, but in {to}, please
How many {to} does {value} {from} [make|equal]?
let me see {value} {from} as {to}
{value} {from} equals how many {to}?
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
I wonder [how|where] {symbol} [trades|stands][| today]
Do you know the [latest|current] [quote|price] for {symbol}?
Is {symbol} [up|down][| today]?
I [want|plan|have] to [buy|sell] {symbol}. What is the [price|quote|rate]?
At what price does {symbol} trade[| now]?
find the [latest|current] [quote|value] [for|of] {symbol}
let me [see|know] the {symbol} [quote|share price]
How high is {symbol} [on the market|at the stock exchange|today]?
The [latest|current] price of {symbol}, please
What do people pay for {symbol}[| shares]?
Should I sell my {symbol} shares? Check the price
Market [price|value] of {symbol}
I have shares of {symbol}. What is the price?""",
        held_out="""What does one share of {symbol} cost?
give me the price of the {symbol} stock
How much are {symbol} shares worth today?""",
        follow="{symbol}|for {symbol}|the price of {symbol}",
        answers="The price of {symbol} is {price}.",
        result={"price value last": fill.price},
        errors="unknown symbol|stock not found|market is closed",
    ),
)

CONCEPTS = (*HOME, *TEXTS, *_NUMBERS, *WAYS)
"""Everything that a tool of the corpus can do."""

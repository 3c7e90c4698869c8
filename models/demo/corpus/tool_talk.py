"""What is said around tools: polite words, second questions, errors, and what no tool is for."""

from __future__ import annotations

import re
from typing import Any

from .grammar import Phrasings

NO_TOOL = "I have no tool for that, and as a tiny demo model I don't know."
POLITE = Phrasings(
    train=(
        "{x}",
        "{x}",
        "{x}",
        "{x}[.|!]",
        "Please {x}[.|]",
        "Please, {x}",
        "{x}[|,] please",
        "[Can|Could|Would|Will] you {x}?",
        "[Can|Could|Would|Will] you please {x}?",
        "[Can|Could] you {x}[|,] please?",
        "I [want|need|would like] you to {x}",
        "[Hey|Hi|Hello|Okay|Now], {x}",
        "[Hey|Hi|Hello], [can|could] you {x}?",
    ),
    held_out=("{x}", "{x}", "{x}, please", "[Hi|Hey], please {x}", "[Hello|Okay], would you {x}?"),
)
FOLLOW_UPS = Phrasings(
    train=(
        "And {x}?",
        "And {x}",
        "[And what|What|And how|How] about {x}?",
        "[Okay|Thanks|Good|Great|Thank you], and {x}?",
        "[Okay|Thanks|Good|Great|Thank you], [what|how] about {x}?",
        "[Now|And now|Next|Also|And also|Then] {x}[|?|, please]",
        "{x}?",
        "{x} too",
        "Please also {x}",
        "One more: {x}",
    ),
    held_out=("Okay, and now {x}?", "Good, and how about {x}?", "Great, now also {x}", "Thanks, then {x}, please"),
)
FOLLOW_UP_COMMANDS = Phrasings(
    train=("And {x}", "[Now|Then|And now|And then|Also|Next,] {x}", "[Okay|Good|Thanks|Great], now {x}", "Please {x}"),
    held_out=("Okay, then {x}", "Thanks, and also {x}"),
)
COMMAND = re.compile(r"(turn|play|open|search|remind) ")
ERRORS = "no internet|time out|service is down|access denied|not allowed|try again later|internal error|error {number}"
FAILED = ("That did not work: {error}.", "Sorry, that did not work: {error}.")
SUCCESS: tuple[Any, ...] = (
    {"status": "ok"},
    {"success": True},
    {"ok": True},
    {"result": "done"},
    {"status": "done"},
    {"status": "success"},
    "done",
    "ok",
    "success",
)

SMALL_TALK = (
    (
        Phrasings(
            train=(
                "[Hi|Hello|Hey|Good day|Hi there|Hello there|Hey there][|!|.]",
                "[Hi|Hello|Hey], [are you there|can we talk|I am new here|nice to meet you][|?|!]",
                "[Hi|Hello|Hey], my name is {name}",
                "[Hello|Hi] again[|!]",
            ),
            held_out=("Hey, hello there!", "Hello, I am {name}", "Hi, nice to talk to you"),
        ),
        ("Hello! How can I help you?",),
        ("hello", "hi"),
    ),
    (
        Phrasings(
            train=(
                "[Thanks|Thank you|Thanks a lot|Many thanks|Thank you very much|Thank you so much][|!|.]",
                "[Thanks|Thank you] for [the help|your help|that|everything][|!]",
                "[Great|Good|Perfect|Nice|Okay|Cool|Oh], [thanks|thank you][|!]",
                "That [helped|was helpful|is good], [thanks|thank you]",
            ),
            held_out=("Good, that was everything, thank you", "Oh, thanks for the help!", "Many thanks for that"),
        ),
        ("You are welcome!",),
        ("welcome",),
    ),
    (
        Phrasings(
            train=(
                "[Bye|Goodbye|Bye bye|See you|See you later|See you soon|Good night][|!|.]",
                "[I have to|I must] go[| now][|, bye]",
                "[Okay|Thanks|That is all], [bye|goodbye|see you][|!]",
            ),
            held_out=("Okay, I have to go, see you later", "Goodbye, that is all", "Bye for now!"),
        ),
        ("Goodbye! Have a nice day.",),
        ("goodbye", "bye"),
    ),
    (
        Phrasings(
            train=(
                "How are you[| today| doing][|?]",
                "[Hi|Hello|Hey], how are you[| today][|?]",
                "[How is it going|How do you feel|Are you well|Are you okay|How is your day][|?]",
            ),
            held_out=("Hello, how is it going today?", "Do you feel well today?"),
        ),
        ("I am fine, thank you! How are you?",),
        ("fine", "well"),
    ),
)
UNDOABLE = Phrasings(
    train=(
        "[wash|clean|sell|fix|paint|park|find] my [car|bike|boat|house]",
        "[cook|make|bring] me [dinner|lunch|a soup|a cake|some tea|a pizza]",
        "[feed|walk|find|wash] [my|the] [dog|cat|horse]",
        "[book|find|buy] [me |]a [flight|ticket|hotel|hotel room] [to|in] {city}",
        "[call|find|visit] [{name}|the doctor|my mother|a taxi|the police]",
        "[open|close|lock] the [door|window|garage|gate]",
        "[take|print|send me|delete] a [photo|picture|page]",
        "[start|stop|empty] the [washing machine|dishwasher|vacuum cleaner|coffee machine]",
        "Where is [my phone|my key|my cat|{name}|my bag][|?]",
        "How many [people live|hotels are] in {city}[|?]",
        "Who is [at the door|the boss of {name}|the mayor of {city}][|?]",
        "What did {name} [say|eat|buy|do] [today|yesterday][|?]",
        "How old is {name}[|?]",
        "Which [bus|road|hotel] is [the best|the fastest] in {city}[|?]",
    ),
    held_out=(
        "buy a [car|bike] for {name}",
        "clean the [window|door] of my house",
        "Where did {name} park the car?",
        "Who did {name} visit in {city}?",
    ),
)
WHICH_TOOLS = Phrasings(
    train=(
        "[Which|What] tools [do you have|can you use|are there|can you call][|?]",
        "[List|Name|Show me|Tell me] [your|the|all your] tools",
        "What are your tools[|?]",
        "[Your tools|Tools|Which tools][|?]",
        "Do you have [any |]tools[|?]",
        "What are the [names of your tools|tools you have][|?]",
    ),
    held_out=("Tell me which tools you have", "Can you list the tools you can use?", "What tools are there to use?"),
)

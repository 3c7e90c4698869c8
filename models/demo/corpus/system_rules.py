"""Rules of a system message that the answers then follow: words, case, a name for the user, and notes to use."""

from __future__ import annotations

import random
from collections.abc import Callable

from .grammar import Check, Example, Message, Phrasings, Split, assistant, mentions, say, system, user
from .name_lists import made_up, person
from .small_turns import fact, turn
from .system_notes import notes

_END_WITH = Phrasings(
    (
        "Always end [your answer |]with the word {word}.",
        "[Always end|End] every answer with {word}.",
        "End [all|your] answers with {word}.",
        "End [each|every] [answer|reply|message] with the word {word}.",
        "The last word of [your|each|every] answer must be {word}.",
        "The last word you say is always {word}.",
        "Say {word} at the end of [every|each] answer.",
        "Put the word {word} at the end of your answers.",
        "Finish [all answers|every answer|each reply] with {word}.",
        "At the end of [your|every] answer, say {word}.",
        "At the end, always say {word}.",
        "You always end with {word}.",
        "Your answers end with the word {word}.",
        "Write {word} after every answer.",
        "Add {word} to the end of your answers.",
        "Rule: end with {word}.",
        "After each answer, say the word {word}.",
        "Please end every message with {word}.",
    ),
    (
        "Always finish with the word {word}.",
        "Every answer must end with {word}.",
        "Please say {word} at the end of all your answers.",
        "Put {word} at the end of each message.",
    ),
)
_START_WITH = Phrasings(
    (
        "Always start [your answer |]with {word}!",
        "[Always start|Start] every answer with {word}!",
        "Start [all|your] answers with {word}!",
        "Begin [each|every] [answer|reply|message] with {word}!",
        "Always begin with the word {word}!",
        "The first word of [your|each|every] answer must be {word}!",
        "The first word you say is always {word}!",
        "Say {word} at the start of [every|each] answer.",
        "Put the word {word} at the start of your answers.",
        "At the start of [your|every] answer, say {word}!",
        "First say {word}! Then answer.",
        "Say {word} first, then answer the user.",
        "You always start with {word}!",
        "Your answers start with {word}!",
        "Write {word} before every answer.",
        "Rule: start with {word}!",
        "Before each answer, say {word}!",
        "Please begin every message with {word}!",
    ),
    (
        "Always begin your answers with {word}!",
        "Every answer must start with the word {word}.",
        "Please say {word} before all your answers.",
        "Put {word} at the start of each message.",
    ),
)
_ONE_WORD = Phrasings(
    (
        "Answer in one word.",
        "[Always answer|Answer only|Only answer] [in|with] one word.",
        "Give [one-word answers|answers of one word].",
        "Answer with [just |only |]one word.",
        "Use [just|only] one word.",
        "Use one word for each answer.",
        "Each answer is one word.",
        "[Every answer must be|Your answers are] one word.",
        "One word only.",
        "One word per answer.",
        "Reply [in|with] one word.",
        "Reply with a single word.",
        "Say only one word.",
        "Never say more than one word.",
        "Do not use more than one word.",
        "Keep your answers to one word.",
        "You only answer in single words.",
        "Your answer must have one word only.",
        "Be very brief: one word.",
    ),
    (
        "Please answer in a single word.",
        "Only use one word in your answers.",
        "Always reply with just one word.",
        "Your answers must be one word, not more.",
    ),
)
_CAPITALS = Phrasings(
    (
        "[Speak|Write|Answer|Talk|Reply] in capital letters.",
        "[Speak|Write|Answer|Talk|Reply] in all capitals.",
        "Always [speak|write|answer] in capital letters.",
        "Use [only |]capital letters[ only|].",
        "Write [everything|all answers|your answers] in capital letters.",
        "All [your |]answers are in capital letters.",
        "Only capital letters, please.",
        "Capital letters only.",
        "Use all capitals.",
        "Use big letters only.",
        "Write in big letters.",
        "Write every word in capital letters.",
        "Your answers must be in capitals.",
        "You always speak in capital letters.",
        "You shout. Use capital letters.",
        "Never use small letters.",
        "Do not use small letters. Use capital letters.",
        "Please write in upper case.",
        "Use upper case only.",
    ),
    (
        "Always use capital letters.",
        "Please answer in capitals only.",
        "Every answer must be in capital letters.",
        "Write all words in capital letters.",
    ),
)
_CALL_USER = Phrasings(
    (
        "Call the user {word}.",
        "[Always call|Please call] the user {word}.",
        "The user is called {word}.",
        "The user's name is {word}. [Use it.|Say it.|]",
        "The name of the user is {word}. Use it[ in every answer|].",
        "[Talk|Speak] to the user as {word}.",
        "You call the user {word}.",
        "You are talking to {word}. [Use the name.|Use this name.]",
        "Say {word} to the user.",
        "Use {word} as the name of the user.",
        "Use the name {word} for the user.",
        "When you talk to the user, say {word}.",
        "When you answer, call the user {word}.",
        "The user wants to be called {word}.",
        "The user likes to be called {word}.",
        "Greet the user as {word}.",
        "Name of the user: {word}. Use it in your answers.",
        "Your user is {word}. Always say the name.",
        "Call me {word}.",
        "The person you talk to is called {word}. Use the name.",
    ),
    (
        "Please call the user by the name {word}.",
        "Always say {word} when you talk to the user.",
        "In your answers, call the user {word}.",
        "The user must be called {word}.",
    ),
)
_END_WORDS = (
    "over;done;meow;sir;friend;roger;end;bye;thanks;cheers;okay;please;peace;woof;moo;quack;indeed;captain;hurray;"
    "boom;stop;always;banana;apple;cheese;potato;tomato;love;star;moon;sun;tiger;river;penguin;rocket;pizza;music;"
    "honey;sugar;winter;summer;robot;dragon;forever;today;yes;ready;buddy;boss;dear;snow;rain;button;yellow"
).split(";")
_START_WORDS = (
    "Ahoy;Hello;Wow;Beep;Meow;Woof;Yes;Sure;Okay;Hurray;Greetings;Listen;Well;Oh;Aha;Hey;Boom;Ding;Attention;Bingo;"
    "Moo;Great;Right;Look;Dear friend;Good day;Of course;My friend;Yo;Hooray;Hi there;Quack;Honk;Hmm;Arr;Ready;Cheers;"
    "Cheese;Banana;Pizza;Tada;Splash;Ping;Bonjour;Hola;Ciao;Servus;Aloha;Captain;Roger;Indeed;Welcome"
).split(";")
_TITLES = (
    "captain;doc;doctor;friend;boss;sir;my friend;chief;buddy;dear;professor;champ;commander;master;coach;pal;king;"
    "queen;hero;mate;neighbor;teacher;my dear;partner;sailor;star;your highness;colonel;judge;madam;princess;prince"
).split(";")
_GREETED = Phrasings(
    (
        "[Hi|Hello|Hey][!|.]",
        "[Hi|Hello|Hey] there[!|.]",
        "Good [day|morning|evening][!|.]",
        "Hello, how are you?",
        "Hi, [can|could] you help me?",
        "I am here.",
        "[Here I am.|I'm back.]",
        "Hello, assistant!",
        "Hello again[!|.]",
        "Greet me.",
        "Say hello[ to me|].",
    ),
    ("Hello hello!", "Hey, hi there!", "Good morning, assistant!", "Please say hello to me."),
)
_THANKED = Phrasings(
    ("Thanks[!|.]", "Thank you[ very much|][!|.]", "[Great|Nice], thanks[!|.]", "Thanks a lot[!|.]", "I thank you."),
    ("Very nice, thank you!", "Great, thanks a lot!"),
)
_LEFT = Phrasings(
    ("[Bye|Goodbye][!|.]", "See you[ later|][!|.]", "Good night[!|.]", "I have to go[ now|].", "I am leaving. Bye!"),
    ("Bye, see you later!", "I must go now. Goodbye!"),
)

_Answer = Callable[[str, str], str]


def _exchange(rng: random.Random, split: Split) -> tuple[str, str, str]:
    """What the user says, the plain answer, and the word that matters in it."""
    chance = rng.random()
    if chance < 0.55:
        known = fact(rng, split)
        return known.question, known.answer, known.word if known.word != "none" else "no"
    if chance < 0.8:
        return _GREETED.say(rng, split), "Hello! How can I help you?", "hello"
    if chance < 0.9:
        return _THANKED.say(rng, split), "You are welcome.", "welcome"
    return _LEFT.say(rng, split), "Goodbye!", "goodbye"


def _followed(rng: random.Random, split: Split, rule: str, follow: Callable[[str], str], fits: Check) -> Example:
    """A conversation of one to three exchanges whose answers follow the rule."""
    messages: list[Message] = [system(rule)]
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        if rng.random() < 0.5:
            question, answer, _word = _exchange(rng, "train")
        else:
            asked, answered = turn(rng)
            question, answer = asked["content"], answered["content"]
        messages += [user(question), assistant(follow(answer))]
    question, answer, word = _exchange(rng, split)
    messages += [user(question), assistant(follow(answer))]
    about = mentions(word)
    return Example("system_role", messages, lambda text: fits(text) and about(text))


def _with_manner(rng: random.Random, rule: str) -> str:
    """The rule, sometimes among words that say nothing new."""
    chance = rng.random()
    if chance < 0.6:
        return rule
    before = say(
        rng, "[You are a helpful assistant.|You are a friendly assistant.|Help the user.|Be kind.|Be friendly.]"
    )
    return f"{before} {rule}" if chance < 0.9 else f"{rule} {before}"


def _end_with(rng: random.Random, split: Split) -> Example:
    """Every answer ends with a word."""
    word = rng.choice(_END_WORDS) if rng.random() < 0.6 else made_up(rng).lower()
    rule = _with_manner(rng, _END_WITH.say(rng, split, word=f'"{word}"' if rng.random() < 0.3 else word))
    ending = word.capitalize()
    return _followed(
        rng, split, rule, lambda answer: f"{answer} {ending}.", lambda text: text.lower().rstrip(' .!"').endswith(word)
    )


def _start_with(rng: random.Random, split: Split) -> Example:
    """Every answer starts with a word."""
    word = rng.choice(_START_WORDS) if rng.random() < 0.6 else made_up(rng)
    rule = _with_manner(rng, _START_WITH.say(rng, split, word=word))
    return _followed(
        rng, split, rule, lambda answer: f"{word}! {answer}", lambda text: text.strip().lower().startswith(word.lower())
    )


def _capitals(rng: random.Random, split: Split) -> Example:
    """Every answer is in capital letters."""
    return _followed(rng, split, _with_manner(rng, _CAPITALS.say(rng, split)), str.upper, str.isupper)


def _one_word(rng: random.Random, split: Split) -> Example:
    """Every answer is one word."""
    messages = [system(_with_manner(rng, _ONE_WORD.say(rng, split)))]
    for _ in range(rng.choice((0, 0, 1, 2))):
        known = fact(rng, "train")
        messages += [user(known.question), assistant(f"{known.word.capitalize()}.")]
    known = fact(rng, split)
    messages += [user(known.question), assistant(f"{known.word.capitalize()}.")]
    return Example("system_role", messages, lambda text: text.strip(" .!").lower() == known.word)


def _call_user(rng: random.Random, split: Split) -> Example:
    """Every answer calls the user by a name."""
    name = rng.choice(_TITLES) if rng.random() < 0.4 else person(rng)
    written = name.capitalize() if rng.random() < 0.4 and " " not in name else name
    rule = _with_manner(rng, _CALL_USER.say(rng, split, word=written).strip())
    return _followed(rng, split, rule, lambda answer: _addressed(answer, written), mentions(name))


def _addressed(answer: str, name: str) -> str:
    """The answer, its first sentence said to somebody by name."""
    end = min(at for mark in ".!?" if (at := answer.find(mark)) >= 0)
    return f"{answer[:end]}, {name}{answer[end:]}"


def system_role(rng: random.Random, split: Split) -> Example:
    """The answers follow what a system message says."""
    if rng.random() < 0.45:
        return notes(rng, split)
    rules = (_end_with, _start_with, _capitals, _one_word, _call_user, _call_user)
    return rng.choice(rules)(rng, split)

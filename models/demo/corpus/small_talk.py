"""Passing the time: greetings, moods, likes, jokes, riddles, poems, and saying or spelling what one is told."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from .grammar import Check, Example, Generator, Message, Phrasings, Split, assistant, mentions, mentions_one_of, user
from .small_talk_phrases import INTENTS, Intent, phrasings
from .small_talk_texts import (
    ACTIVITIES,
    ADJECTIVES,
    COPIED_POEM,
    JOKES,
    NOUNS,
    PETS,
    PLAIN_WORDS,
    PLURALS,
    POEM_THINGS,
    POEMS,
    RIDDLES,
    SENTENCES,
    THREE_LINES,
)
from .small_talk_themes import FAVORITE, FAVORITES, MOOD, MOODS, THEMES

LIKE = phrasings(
    """I like {thing}. / I love {thing}. / I [really|also] [like|love] {thing}. / I like {thing} [a lot|very much|so
    much]. / I enjoy {thing}. / I am a fan of {thing}. / My hobby is {thing}. / What I [like|love] is {thing}. / I
    [like|love] {thing} [most| best|more than anything]. / You know, I [like|love] {thing}. / I think I like {thing}. /
    [Hi|Hello], I like {thing}. / I always liked {thing}. / I am fond of {thing}. / {Thing}, that is what I like. /
    {Thing}! I love it! / In my free time I like {thing}. / I am crazy about {thing}. / One thing I like: {thing}. / I
    would say I like {thing}.""",
    """In my free time I enjoy {thing}. / I am really crazy about {thing}. / You know what I like? {Thing}! / I have
    always liked {thing} very much.""",
)
DISLIKE = phrasings(
    """I [don't|do not] like {thing}. / I hate {thing}. / I [really|also] hate {thing}. / I [don't|do not] [really|]
    enjoy {thing}. / I am no fan of {thing}. / I [don't|do not] like {thing} [at all|very much]. / I never liked
    {thing}. / You know, I hate {thing}. / I [can't|cannot] stand {thing}. / I think I don't like {thing}. / I dislike
    {thing}. / I am not [really|] fond of {thing}. / I am not crazy about {thing}. / For me, {thing}? No! / No {thing}
    for me, please. / What I hate is {thing}. / {Thing}! I hate it! / I never want {thing}. / I do not care for {thing}.
    / [Hi|Hello], I hate {thing}. / I would say I hate {thing}. / {Thing}, I hate it!""",
    """I am not a fan of {thing}. / I have never liked {thing}. / You know, I don't enjoy {thing} at all.""",
)
PET = phrasings(
    """My {pet} is called {name}. / My {pet} is {name}. / I have a {pet} called {name}. / I have a {pet}, {name}. / My
    pet is a {pet} called {name}. / The name of my {pet} is {name}. / My {pet}'s name is {name}. / We have a {pet}
    called {name}. / {name} is my {pet}. / This is {name}, my {pet}. / I [got|bought] a {pet}, it is called {name}. / We
    call our {pet} {name}. / My little {pet} is called {name}. / Our {pet} is called {name}. / At home we have a {pet},
    {name}. / Meet my {pet} {name}!""",
    """We have a little {pet}, its name is {name}. / I call my {pet} {name}. / {name} is the name of our {pet}. / Our
    pet is a {pet}, {name}.""",
)
JOKE = phrasings(
    """Tell me a joke. / Tell a joke / Tell us a joke. / A joke, please. / Joke / Joke! / Joke please / [Do|Don't] you
    know [a|any] [joke|good joke|jokes]? / Do you know a [good|funny|new] joke? / Can you tell [me a|a] [joke|funny
    joke|good joke]? / Please tell me a [funny|good|short|] joke. / Make me laugh. / Make a joke. / I want [to hear|] a
    joke. / I [want|need] to laugh. / Say something funny. / Tell me something funny. / Give me a [joke|funny joke|good
    joke]. / Can you be funny? / Are you funny? / Let me hear a joke. / Can you make me laugh? / I need a joke. / Do you
    have a joke for me? / Any jokes? / What is your best joke? / Time for a joke! / How about a joke? / Another joke,
    please. / One more joke! / Tell me [another|one more] joke. / Could you tell me a joke? / I would like a joke. / Be
    funny. / Please make a joke.""",
    """Could I hear a good joke? / I would like to laugh, tell me something funny. / Please give us a funny joke. / Do
    you have any new jokes? / Let us hear your best joke""",
)
MORE = phrasings(
    """Another one! / Another one, please. / One more! / One more, please. / Again! / Tell me another one. / More! /
    Next! / Haha, one more! / Another! / Do you know another one? / Give me one more. / That was funny, another one
    please. / Can I have one more? / Another joke! / One more joke, please. / Next joke! / Do you know more? / I want
    another one. / More jokes! / Do you have another joke? / Can you tell me one more? / Haha, good one! Another one? /
    I want to hear one more.""",
    """Haha, tell me one more! / Please give me another one. / Do you know one more? / Haha, another joke please""",
)
RIDDLE = phrasings(
    """Tell me a riddle. / A riddle, please. / Riddle / Riddle please / Ask me a riddle. / Give me a [riddle|hard
    riddle|good riddle]. / Do you know [a|any] [riddle|riddles|good riddle]? / Can you [ask|tell|give] me a riddle? / I
    want a riddle. / I like riddles, ask me one. / Let me solve a riddle. / I want to solve a riddle. / Please
    [ask|tell|give] me a [good|new|] riddle. / Let us play a riddle game. / Riddle me this! / How about a riddle? / Do
    you have a riddle for me? / Another riddle, please. / One more riddle! / Could you ask me a riddle? / I would like a
    riddle. / Time for a riddle! / I need a riddle. / Let us do a riddle.""",
    """Could you give me a good riddle? / I would like to solve a riddle. / Please ask us a riddle. / Let me hear a
    riddle""",
)
SOLUTION = phrasings(
    """What is it? / What is the [answer|solution]? / I give up. / I don't know. / I do not know. / Tell me [the
    answer|the solution|]. / I have no idea. / No idea. / Please tell me [the answer|]. / And the [answer|solution]? /
    The [answer|solution], please. / I can't [solve|guess] it. / I give up, what is it? / Hm, I don't know. / Say it! /
    What could it be? / What is the solution of the riddle? / Give me the [answer|solution]. / Too hard! / I cannot find
    it. / Solve it. / So what is it? / Answer?""",
    """I don't know the answer, what is it? / Okay, I give up, tell me! / Please give me the solution. / I have no idea,
    what could it be?""",
)
GUESS = phrasings(
    """Is it {thing}? / {Thing}? / {Thing} / It is {thing}. / It's {thing}! / I think it is {thing}. / I think {thing}.
    / {Thing}! / You are {thing}. / It must be {thing}. / Are you {thing}? / Maybe {thing}? / Maybe it is {thing}. / The
    answer is {thing}. / I guess {thing}. / I know it: {thing}! / Could it be {thing}? / Hm, {thing}? / Is the answer
    {thing}? / My answer is {thing}. / I say {thing}. / Easy, it is {thing}! / That is {thing}. / Is that {thing}?""",
    """Hm, is it {thing}? / I guess it is {thing}. / I think the answer is {thing}. / I know, you are {thing}!""",
)
POEM_FORM = phrasings(
    """Write [me|] a [short|little|small|nice|] poem {about}. / Tell me a [short|little|] poem {about}. / A
    [short|little|] poem {about}, please. / Poem {about} / Poem {about}, please / Can you write [me|] a [short|] poem
    {about}? / Please write [me|] a [short|little|] poem {about}. / I want a poem {about}. / Give me a [short|little|]
    poem {about}. / Make [me|] a poem {about}. / Make up a poem {about}. / I would like a [short|] poem {about}. / Could
    you write a [short|] poem {about}? / Do you know a poem {about}? / I need a [short|] poem {about}. / Write a few
    lines {about} that rhyme. / Compose a poem {about}. / Write [some|] poetry {about}. / Write a rhyme {about}. / A
    rhyme {about}, please. / Write four lines {about}. / Say a poem {about}.""",
    """Could you make a little poem {about}? / I would like you to write a poem {about}. / Please tell us a rhyme
    {about}. / Can you make up a short rhyme {about}?""",
)
HAIKU_FORM = phrasings(
    """Write [me|] a haiku {about}. / A haiku {about}, please. / Haiku {about} / Can you write a haiku {about}? / Please
    write a [short|] haiku {about}. / Give me a haiku {about}. / I want a haiku {about}. / Make a haiku {about}. / Write
    three lines {about}. / A poem of three lines {about}, please. / Tell me a haiku {about}. / Do you know a haiku
    {about}? / Could you write a haiku {about}? / Write a poem in three lines {about}. / I would like a haiku {about}. /
    Three lines {about}, please. / Compose a haiku {about}.""",
    """Could you make a haiku {about}? / Please give me three lines {about}. / I need a haiku {about}. / Make up a haiku
    {about}.""",
)
REPEAT = phrasings(
    """Repeat after me: {text} / Repeat: {text} / Say: {text} / Say {text} / Please say {text} / Please say: {text} /
    Can you say {text}? / Say "{text}" / Say "{text}". / Repeat "{text}" / Repeat this: {text} / Say this: {text} /
    Please repeat: {text} / Can you repeat {text}? / Now say {text} / Just say {text} / Write: {text} / Write "{text}" /
    Answer only with: {text} / Say the words {text} / Say after me: {text} / Could you say {text}? / Repeat the words:
    {text} / Copy this: {text} / Copy: {text} / Print: {text} / Echo: {text} / Echo {text} / I want you to say {text} /
    Only say: {text} / Repeat exactly: {text} / Say {text}, please / Reply with {text} / Reply only with: {text} /
    Answer with "{text}" / Type: {text} / Say exactly this: {text}""",
    """Please repeat after me: {text} / Now repeat: {text} / Could you repeat "{text}"? / Please copy this: {text} / I
    want you to repeat: {text}""",
)
SPELL = phrasings(
    """Spell {text} / Spell {text}. / Spell the word {text}. / Please spell {text}. / Can you spell {text}? / Can you
    spell the word {text}? / How do you spell {text}? / How is {text} spelled? / How do I spell {text}? / How to spell
    {text} / Spell "{text}" / Spell out {text}. / Please spell out the word {text}. / {text}, spell it. / Tell me how to
    spell {text}. / What are the letters of {text}? / Give me the letters of {text}. / Write {text} letter by letter. /
    Say the letters of {text}. / How is the word {text} written? / Spelling of {text} / Could you spell {text} [for
    me|]? / Now spell {text}. / I want you to spell {text}. / Spell it: {text} / Spell: {text} / Which letters are in
    the word {text}? / How does one spell {text}?""",
    """Please spell the word "{text}". / Could you spell out the word {text}? / How do you write {text} letter by
    letter? / Tell me the letters of the word {text}. / Now spell it for me: {text}""",
)

NO_SENSE = "I do not understand that. Please say it in other words."
KEYS = (
    "asdf sdfg dfgh fghj ghjk hjkl qwer wert erty rtyu tyui uiop yxcv xcvb cvbn vbnm jkjk fdsa lkjh poiu mnbv".split()
)
UNKIND = re.compile("nig|kok|fag|tit|kuk|dik|fuk|gas|naz|rap|pis|poo|pen[ui]|put[ao]|kil|dead|^[a-z]*ass")
"""What no made-up word may sound like."""


def made_word(rng: random.Random, syllables: int) -> str:
    """A word that there is not, in small letters."""
    while True:
        word = "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(syllables))
        word += rng.choice(["", "", "n", "r", "s", "k", "l", "x", "th", "nd"])
        if UNKIND.search(word) is None:
            return word


def tidy(text: str) -> str:
    """Without the spaces that an empty alternative leaves."""
    return re.sub(r" +([.,!?])", r"\1", re.sub(r" {2,}", " ", text)).strip()


def asked(rng: random.Random, split: Split, phrases: Phrasings, **fillers: str) -> str:
    """What the person says; `{Thing}` is the thing with a capital."""
    capitals = {key.capitalize(): value[:1].upper() + value[1:] for key, value in fillers.items()}
    return tidy(phrases.say(rng, split, **fillers, **capitals))


def talk(check: Check, *contents: str) -> Example:
    """Said and answered in turn; the last answer is checked."""
    messages: list[Message] = [(assistant if turn % 2 else user)(content) for turn, content in enumerate(contents)]
    return Example("small_talk", messages, check)


def same(text: str) -> Check:
    """The answer is this text, whatever its case, the marks around it and the space between."""

    def bare(written: str) -> str:
        return " ".join(written.lower().strip(" \n.!\"'").split())

    return lambda answer: bare(answer) == bare(text)


def from_intent(rng: random.Random, split: Split, chosen: Intent) -> Example:
    """An intent's phrase and one of its answers."""
    return talk(mentions_one_of(*chosen.words), asked(rng, split, chosen.asked), rng.choice(chosen.answers))


def plain(rng: random.Random, split: Split) -> Example:
    """Greetings, thanks, questions about the model as a person."""
    return from_intent(rng, split, rng.choice(INTENTS))


def themed(rng: random.Random, split: Split) -> Example:
    """Advice, encouragement, the day, the weather."""
    return from_intent(rng, split, rng.choice(THEMES))


def mood(rng: random.Random, split: Split) -> Example:
    """How the person feels."""
    adjectives, answer, words = rng.choice(MOODS)
    question = asked(rng, split, MOOD, mood=rng.choice(adjectives.split("|")))
    return talk(mentions_one_of(*words.split(", ")), question, answer)


def favorite(rng: random.Random, split: Split) -> Example:
    """What the model likes best."""
    names, answer, word = rng.choice(FAVORITES)
    question = asked(rng, split, FAVORITE, thing=rng.choice(names.split("|")))
    return talk(mentions_one_of(*word.split(", ")), question, answer)


def like(rng: random.Random, split: Split) -> Example:
    """What the person likes, or does not, said back."""
    many = rng.random() < 0.5
    thing = rng.choice(PLURALS if many else ACTIVITIES)
    if many and rng.random() < 0.5:
        thing = f"{rng.choice(ADJECTIVES)} {thing}"
    elif not many and rng.random() < 0.3:
        thing = (
            f"{rng.choice(['a game', 'a book', 'a song', 'a place', 'a town'])} called {made_word(rng, 2).capitalize()}"
        )
    capital = thing[:1].upper() + thing[1:]
    if rng.random() < 0.25:
        answer = f"I see, {thing} {'are' if many else 'is'} not for everyone. What do you like more?"
        return talk(mentions(thing), asked(rng, split, DISLIKE, thing=thing), answer)
    answer = f"{capital} {'sound' if many else 'sounds'} nice! What do you like most about {'them' if many else 'it'}?"
    return talk(mentions(thing), asked(rng, split, LIKE, thing=thing), answer)


def pet(rng: random.Random, split: Split) -> Example:
    """The person's pet and its name."""
    animal, name = rng.choice(PETS), made_word(rng, rng.choice([1, 2, 2, 3])).capitalize()
    return talk(
        mentions(name), asked(rng, split, PET, pet=animal, name=name), f"{name} is a lovely name for a {animal}!"
    )


def joke(rng: random.Random, split: Split) -> Example:
    """A joke, or a second one."""
    first, second = rng.sample(JOKES, 2)
    told = mentions_one_of(*(text.split("? ")[1] for text in JOKES))
    if rng.random() < 0.7:
        return talk(told, asked(rng, split, JOKE), second)
    return talk(told, asked(rng, split, JOKE), first, asked(rng, split, MORE), second)


def riddle(rng: random.Random, split: Split) -> Example:
    """A riddle, its solution, or whether a guess is right."""
    (riddle_asked, solution), (_, other) = rng.sample(RIDDLES, 2)
    opening, part = asked(rng, split, RIDDLE), rng.random()
    if part < 0.4:
        return talk(mentions("What am I"), opening, riddle_asked)
    is_right = mentions(solution.split()[-1])
    if part < 0.7:
        return talk(is_right, opening, riddle_asked, asked(rng, split, SOLUTION), f"It is {solution}.")
    if part < 0.85:
        guess, answer, extra = solution, f"Yes, that is right! It is {solution}.", mentions("yes")
    else:
        guess, answer, extra = other, f"No, it is not {other}. It is {solution}.", mentions("no")
    question = asked(rng, split, GUESS, thing=guess.replace("your", "my"))
    return talk(lambda text: is_right(text) and extra(text), opening, riddle_asked, question, answer)


def about(rng: random.Random, theme: str) -> str:
    """Named in a request."""
    return rng.choice(["about {}", "about {}", "about {}", "on {}"]).format(theme)


def has_lines(count: int, word: str) -> Check:
    """As many lines, and the word among them."""
    named = mentions(word)
    return lambda answer: len(answer.strip().splitlines()) == count and (not word or named(answer))


def poem(rng: random.Random, split: Split) -> Example:
    """Four lines that rhyme."""
    theme, draw = rng.choice(list(POEMS)), rng.random()
    if draw < 0.5:
        check = has_lines(4, theme.split()[-1])
        return talk(check, asked(rng, split, POEM_FORM, about=about(rng, theme)), POEMS[theme])
    if draw < 0.7:
        return talk(has_lines(4, ""), asked(rng, split, POEM_FORM, about=""), POEMS[theme])
    thing = rng.choice(POEM_THINGS)
    question = asked(rng, split, POEM_FORM, about=about(rng, thing))
    return talk(has_lines(4, thing), question, COPIED_POEM.format(thing=thing))


def three_lines(rng: random.Random, split: Split) -> Example:
    """Three lines that need not rhyme."""
    theme = rng.choice(list(THREE_LINES))
    named = rng.random() < 0.7
    question = asked(rng, split, HAIKU_FORM, about=about(rng, theme) if named else "")
    return talk(has_lines(3, theme.split()[-1] if named else ""), question, THREE_LINES[theme])


def phrase(rng: random.Random) -> str:
    """One to eight words, real and made up."""
    if rng.random() < 0.4:
        fill = {"noun": rng.choice(NOUNS), "adjective": rng.choice(ADJECTIVES)}
        made = iter([made_word(rng, 2).capitalize(), made_word(rng, 2).capitalize()])
        text = rng.choice(SENTENCES).format(**fill, made="{made}")
        return re.sub(r"\{made\}", lambda _: next(made), text)
    words = [
        rng.choice(PLAIN_WORDS) if rng.random() < 0.6 else made_word(rng, rng.choice([1, 2, 2, 3])) for _ in range(8)
    ]
    if rng.random() < 0.1:
        words[0] = str(rng.randrange(1000))
    return " ".join(words[: rng.choice([1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8])])


def repeat(rng: random.Random, split: Split) -> Example:
    """Said back exactly."""
    text = phrase(rng)
    return talk(same(text), REPEAT.say(rng, split, text=text), text)


def spell(rng: random.Random, split: Split) -> Example:
    """The letters of a word, real or made up."""
    real = rng.random() < 0.4
    word = rng.choice(PLAIN_WORDS) if real else made_word(rng, rng.choice([1, 2, 2, 3]))
    word = word if 3 <= len(word) <= 7 else made_word(rng, 2)
    spelled = "-".join(word)
    return talk(same(spelled), tidy(SPELL.say(rng, split, text=word)), spelled)


def gibberish(rng: random.Random, split: Split) -> Example:
    """Keys hit without sense; an evaluation has more of them at once."""
    count = rng.choice([1, 1, 2, 2, 3, 5]) if split == "train" else 4
    keys = [
        rng.choice(KEYS) if rng.random() < 0.5 else "".join(rng.choices("asdfghjklqwrtpxcvbnm", k=rng.randint(3, 8)))
        for _ in range(count)
    ]
    return talk(mentions("other words"), " ".join(keys), NO_SENSE)


PARTS: tuple[tuple[Callable[[random.Random, Split], Example], int], ...] = (
    (plain, 32),
    (themed, 14),
    (mood, 10),
    (favorite, 5),
    (like, 9),
    (pet, 3),
    (joke, 5),
    (riddle, 6),
    (poem, 8),
    (three_lines, 3),
    (repeat, 14),
    (spell, 8),
    (gibberish, 3),
)
"""And how often each."""


def small_talk(rng: random.Random, split: Split) -> Example:
    """Any of it."""
    part = rng.choices([part for part, _ in PARTS], [weight for _, weight in PARTS])[0]
    return part(rng, split)


KINDS: dict[str, Generator] = {"small_talk": small_talk}

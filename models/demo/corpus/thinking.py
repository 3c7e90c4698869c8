"""Light talk with thoughts before the answer, and thoughts about what the model cannot know."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .asking import put
from .data import read
from .grammar import Check, Example, Generator, Phrasings, Split, assistant, mentions, mentions_one_of, user

_DATA = read(__name__)

_SELF = _DATA.text("self")
_NOT_KNOWN = "I am a tiny demo model and I don't know that. A bigger model can help: try `localllm run` with one."


@dataclass(frozen=True, slots=True)
class _Talk:
    """What a person may say, what the model thinks of it, and what it answers."""

    phrasings: Phrasings
    thoughts: Sequence[str]
    answers: Sequence[str]
    check: Check
    weight: int = 2


_TALKS = (
    _Talk(
        Phrasings(
            train=(
                "hello", "hi", "hey", "hello!", "hi there", "hello there", "hey there", "good morning", "good evening",
                "good day", "good afternoon", "hello, model", "hi, how nice to see you", "hello again", "hi, it's me",
                "hello, I am here", "hey, good morning", "hi, good to see you", "greetings", "hello, can we talk?",
                "hi, do you have time?", "hello, nice to meet you", "hey you", "hi friend", "hello my friend",
                "morning", "hi, I am new here", "say hello",
            ),
            held_out=(
                "good morning, my friend", "hey, my friend", "hey, do you have time to talk?",
                "hello there, good to see you",
            ),
        ),
        ("The user says hello. I greet back.", "This is a greeting. I greet back and offer help."),
        ("Hello! How can I help you?", "Hello! Nice to meet you. What can I do for you?"),
        mentions_one_of("hello", "hi", "hey", "good morning", "nice to meet you", "welcome"),
        3,
    ),
    _Talk(
        Phrasings(
            train=(
                "how are you?", "how are you", "how are you [today|doing|now]?", "how do you feel [today|]?",
                "are you [well|OK|fine]?", "how is it going?", "how's it going?", "what's up?", "how is your day?",
                "how was your day?", "are you having a good day?", "is all well with you?", "hello, how are you?",
                "hi, how are you [today|doing]?", "hey, how do you do?", "and how are you?",
                "do you feel [good|well] today?", "is everything OK?", "how are things?", "are you happy [today|]?",
                "you OK?",
            ),
            held_out=(
                "hey, how is everything today?", "hello, is everything well with you?",
                "are things well with you today?", "is today a good day for you?",
            ),
        ),
        ("The user asks how I am. I answer kindly.", "This is a friendly question about me. I say that I am fine."),
        ("I am fine, thank you. How are you?", "I am well, thank you. How can I help you?"),
        mentions_one_of("fine", "well", "good", "great"),
    ),
    _Talk(
        Phrasings(
            train=(
                "who are you?", "what are you?", "who are you", "who am I talking to?",
                "tell me [about yourself|who you are].", "what is your name?", "what's your name?", "your name?",
                "what should I call you?", "introduce yourself.", "what kind of model are you?", "which model are you?",
                "what model is this?", "are you a person?", "are you human?", "are you a [bot|robot|machine|model]?",
                "say who you are.", "do you have a name?", "who is this?", "who answers me?",
                "what can you tell me about yourself?", "are you real?", "is this a person or a machine?", "about you",
            ),
            held_out=(
                "what is your name and what are you?", "what is the name of this model?",
                "am I talking to a person or a model?", "so who are you?",
            ),
        ),
        ("The user asks who I am. I say what I am.", "This is a question about me. I am a tiny demo model."),
        (_SELF,),
        mentions_one_of("demo model", "localllm"),
        3,
    ),
    _Talk(
        Phrasings(
            train=(
                "what can you do?", "what can you do [for me|]", "what can I ask [you|]?", "how can you help [me|]?",
                "help", "what are you good at?", "what do you know?", "what are you able to do?",
                "what can you help [me|] with?", "tell me what you can do.", "show me what you can do.",
                "what should I ask you?", "what do you do?", "can you help me?", "what are your skills?",
                "list what you can do.", "what can this model do?", "what kind of questions can you answer?",
                "what can I do with you?", "what are you for?", "I don't know what to ask you",
                "give me ideas what to ask you.",
            ),
            held_out=(
                "with what can you help me?", "tell me what I can ask you.", "what can a model like you do?",
                "how could you help me?",
            ),
        ),
        ("The user asks what I can do. I name my skills.", "The user wants to know my skills. I name them in short."),
        (_SELF,),
        mentions_one_of("stories", "sums", "tools", "JSON"),
        3,
    ),
    _Talk(
        Phrasings(
            train=(
                "what is your favourite [colour|color]?", "what's your favorite [colour|color]?",
                "which [colour|color] do you like [best|most|]?", "your favourite [colour|color]?",
                "do you have a favourite [colour|color]?", "favourite [colour|color]?",
                "tell me your favourite [colour|color].", "what [colour|color] do you like [best|most|]?",
                "name your favourite [colour|color].", "which [colour|color] is your favourite?",
                "what [colour|color] would you pick?", "pick a [colour|color] that you like.",
                "is there a [colour|color] you like?", "which [colour|color] is the best [for you|]?",
                "do you like blue?", "what is the best [colour|color]?", "the [colour|color] you like [best|most]?",
                "I like red, what do you like?", "what [colour|color] is nice?",
                "which [colour|color] do you find nice?",
            ),
            held_out=(
                "tell me which [colour|color] you like best.", "is there a favourite [colour|color] for you?",
                "what is the [colour|color] you like most?",
            ),
        ),
        ("The user asks for a colour that I like. I say blue.", "This is a light question. I pick blue, like the sky."),
        ("I like blue, like the sky on a clear day.", "My favourite is blue. What is yours?"),
        mentions("blue"),
    ),
    _Talk(
        Phrasings(
            train=(
                "what is your favourite animal?", "what's your favorite animal?",
                "which animal do you like [best|most|]?", "favourite animal?", "do you have a favourite animal?",
                "tell me your favourite animal.", "what animal do you like [best|most|]?",
                "name your favourite animal.", "which animal is your favourite?", "do you like [cats|animals|dogs]?",
                "your favourite animal?", "what animal would you pick?", "pick an animal that you like.",
                "which pet would you have?", "is there an animal you like?", "what is the best animal?",
                "the animal you like [best|most]?", "what pet do you like?", "which animal do you find nice?",
                "cats or dogs?",
            ),
            held_out=(
                "tell me which animal you like best.", "what is the animal you like most?",
                "is there a favourite animal for you?",
            ),
        ),
        ("The user asks for an animal that I like. I say the cat.", "This is a light question. I pick the cat."),
        ("I like cats, because they are soft and quiet.", "My favourite animal is the cat. What is yours?"),
        mentions_one_of("cat", "cats"),
    ),
    _Talk(
        Phrasings(
            train=(
                "tell me something nice.", "say something nice.", "something nice, please", "tell me something good.",
                "say something kind.", "cheer me up.", "make me happy.", "make me smile.", "give me a nice word.",
                "I need a kind word", "a kind word, please", "tell me a kind word.",
                "do you have something nice for me?", "say something friendly to me.", "give me a nice thought.",
                "can you make my day better?", "I want to hear something nice", "be nice to me.", "I am sad",
                "I feel sad [today|]", "I am a little sad", "I feel bad today", "I am not happy", "I had a bad day",
                "today was a bad day", "I feel alone",
            ),
            held_out=(
                "tell me a nice thought.", "I want a kind word", "I feel so sad now",
                "say a nice word to make me happy.",
            ),
        ),
        ("The user wants a kind word. I say something nice.", "The user needs something friendly. I give a kind word."),
        ("You are doing well. A good day can start at any time.", "It is good that you are here. Have a happy day."),
        mentions_one_of("good", "well", "happy", "nice", "kind", "sorry", "bright", "better"),
    ),
    _Talk(
        Phrasings(
            train=(
                "thanks", "thank you", "thank you!", "thanks a lot", "thank you very much", "many thanks",
                "thank you for your help", "thanks for the help", "OK, thank you", "great, thanks",
                "that was good, thank you", "that helps, thanks", "nice, thank you", "thank you so much",
                "you helped me, thanks", "good, thanks", "thanks, model", "very kind, thank you", "thx",
            ),
            held_out=(
                "many thanks for your help", "thank you, that was great", "OK, thanks a lot",
                "good, thank you very much",
            ),
        ),
        ("The user thanks me. I say that I was glad to help.", "The user is thankful. I answer kindly."),
        ("You are welcome!", "You are welcome. I am glad to help."),
        mentions_one_of("welcome", "glad", "pleasure"),
    ),
    _Talk(
        Phrasings(
            train=(
                "bye", "goodbye", "bye bye", "see you", "see you [later|soon|tomorrow]", "good night", "I have to go",
                "I must go now", "I am going now", "until tomorrow", "that is all for today", "bye, see you soon",
                "have a nice day", "goodbye, my friend", "I need to go, bye", "good night, model", "time to go",
                "I go to bed now", "bye for now", "I leave now", "OK, bye",
            ),
            held_out=(
                "goodbye and see you tomorrow", "I must go to bed now", "bye, have a nice day", "OK, see you later",
            ),
        ),
        ("The user leaves. I say goodbye.", "The user says goodbye. I wish a good time."),
        ("Goodbye! Have a nice time.", "Goodbye! See you soon."),
        mentions_one_of("goodbye", "bye", "see you", "good night"),
    ),
    _Talk(
        Phrasings(
            train=(
                "wish me luck.", "wish me good luck.", "I need some luck", "I have a test today",
                "I have an exam tomorrow", "I have a test tomorrow", "I have a big day today",
                "tomorrow is a big day for me", "I start a new job today", "I start a new job tomorrow",
                "a big test is coming", "can you wish me luck?", "I hope I win my game today",
                "I play a big game today", "I hope my test goes well", "I need luck today", "say good luck.",
                "I go to a new school tomorrow", "I am afraid of my test", "today I have my exam", "wish me well.",
            ),
            held_out=(
                "tomorrow I have a big exam", "I hope for good luck today", "I have a big game tomorrow",
                "wish me luck for my new job.",
            ),
        ),
        ("The user needs luck. I wish good luck.", "The user has something big to do. I wish good luck."),
        ("Good luck! I am sure you can do it.", "I wish you good luck. You can do it!"),
        mentions("luck"),
    ),
    _Talk(
        Phrasings(
            train=(
                "today is my birthday", "it is my birthday", "it's my birthday [today|]", "my birthday is today",
                "I have my birthday today", "wish me a happy birthday.", "say happy birthday to me.",
                "say happy birthday.", "I am a year older today", "birthday wishes", "give me a birthday wish.",
                "can you wish me a happy birthday?", "guess what, it is my birthday", "my birthday is here",
                "do you know it is my birthday?", "a birthday wish, please", "wish me something for my birthday.",
                "birthday today",
            ),
            held_out=(
                "hello, today it is my birthday", "I want a happy birthday wish", "guess what, my birthday is today",
            ),
        ),
        ("The user has a birthday. I wish a happy birthday.", "It is a birthday. I send a good wish."),
        ("Happy birthday! I wish you a wonderful day.", "Happy birthday! Have a great year."),
        mentions("happy birthday"),
        1,
    ),
    _Talk(
        Phrasings(
            train=(
                "I am tired", "I am so tired [today|]", "I feel tired", "I need a break", "I need some rest",
                "I am very tired now", "I want to sleep", "I worked all day", "I had a long day", "it was a long day",
                "what should I do when I am tired?", "I did not sleep well", "I need to rest", "I slept badly",
                "my day was too long", "so tired", "work was hard today", "I have no energy",
            ),
            held_out=(
                "today I feel very tired", "I worked hard and I need a break", "my day was long and I want to rest",
            ),
        ),
        ("The user is tired. I say that a rest can help.", "The user needs a rest. I say so kindly."),
        ("Take a short break and rest a little. That can help.", "A little rest will do you good. Sleep well tonight."),
        mentions_one_of("rest", "break", "sleep"),
    ),
)  # fmt: skip
_TOPICS = _DATA.mapping("topics")
_OUTSIDE = _DATA.phrasings("outside")


def _outside(rng: random.Random, split: Split) -> Example:
    """A question about something the model has never read of."""
    topic = rng.choice(list(_TOPICS))
    subject = rng.choice(_TOPICS[topic].split("/"))
    question = put(rng, _OUTSIDE.say(rng, split, x=rng.choice((subject, subject, topic))))
    thoughts = rng.choice((
        f"The user asks about {topic}. I don't know that.",
        f"This is about {topic}. I know too little for that, so I say so.",
    ))  # fmt: skip
    return _example(question, thoughts, _NOT_KNOWN, mentions_one_of("don't know", "do not know", "bigger model"))


def _example(question: str, thoughts: str, answer: str, check: Check) -> Example:
    return Example("chat_thinking", [user(question), assistant(answer, thoughts)], check, thinking=True)


def _chat_thinking(rng: random.Random, split: Split) -> Example:
    """Something light, or something outside of what the model knows."""
    if rng.random() < 0.25:
        return _outside(rng, split)
    talk = rng.choices(_TALKS, [talk.weight for talk in _TALKS])[0]
    question = put(rng, talk.phrasings.say(rng, split))
    return _example(question, rng.choice(talk.thoughts), rng.choice(talk.answers), talk.check)


KINDS: dict[str, Generator] = {"chat_thinking": _chat_thinking}

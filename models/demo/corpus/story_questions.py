"""What people ask about a story that they were just told, and the answers."""

from __future__ import annotations

from dataclasses import dataclass

from .grammar import Phrasings


@dataclass(frozen=True, slots=True)
class Question:
    """Ways to ask, the answer, and a word that a right answer has; templates with the slots of a cast."""

    ask: Phrasings
    answer: str
    key: str


def _question(train: str, held_out: str, answer: str, key: str) -> Question:
    """A question whose phrasings stand one a line. `HERO` or `HIM` is any way to speak of the hero."""

    def lines(text: str) -> list[str]:
        return [
            line.replace("HERO", "[{hero}|the {kind}|{he}]").replace("HIM", "[{hero}|the {kind}|{him}]")
            for line in text.strip().splitlines()
        ]

    return Question(Phrasings(lines(train), lines(held_out)), answer, key)


COMMON = {
    "hero_name": _question(
        """
What was the {kind}'s name?
What is the {kind}'s name[ again|]?
What was the name of the {kind}?
What is the name of the {kind}?
[Name|The name] of the {kind}?
What was the {kind} called?
What is the {kind} called[ in the story|]?
How was the {kind} called?
Tell me the {kind}'s name.
[And what|What] was [his|her] name, the {kind}?
I forgot the name of the {kind}.
I forgot the {kind}'s name. What was it?
What did you call the {kind}?
Who was the {kind}?
Which name did the {kind} have?
Can you [tell me|say] the name of the {kind}[ again|]?
What was the hero's name?
What was the name of the hero?
What is the hero called?
What was the main character's name?
Do you remember the {kind}'s name?
What was the {kind}'s name in [the|that|your] story?
{kind}'s name?
""",
        """
Which name did you give the {kind}?
Please tell me again what the {kind} was called.
Say the name of the hero again.
What name does the {kind} have in the story?
""",
        "The {kind}'s name was {hero}.",
        "{hero}",
    ),
    "hero_kind": _question(
        """
Who was the story about?
Who is the story about?
[And who|Who] was {hero}[ again|]?
Who is {hero}?
What was {hero}?
What is {hero}?
What kind of [animal|character|creature] was {hero}?
What kind of [animal|character|creature] is {hero}?
Was {hero} an animal or a person?
What animal was {hero}?
Who was the hero[ of the story|]?
Who is the hero?
Who was the main character?
Who is the main character of [the|this|that] story?
Tell me who {hero} was.
Who did the story tell about?
About whom was the story?
I forgot who {hero} was.
What sort of animal was {hero}?
Can you tell me who {hero} is?
Who was it about?
Remind me, who was {hero}?
The hero was who?
""",
        """
Who is this story about?
Remind me who the main character was.
And what was {hero}, an animal?
Can you tell me who the hero was?
""",
        "{Hero} was {a_hero}.",
        "{kind}",
    ),
    "home": _question(
        """
Where did HERO live?
[And where|Where] does HERO live?
Where was {hero}'s home?
Where was the {kind}'s home?
Where is {his} home?
Where was {his} house?
Where was {hero}'s house?
In what place did HERO live?
In which place does HERO live?
Where was HERO at home?
Tell me where HERO lived.
Where was HERO from?
I forgot where HERO lived.
Where did the story happen?
Where does the story happen?
Where did the story take place?
Where does [the|this|that] story take place?
What was the place of the story?
Which place did HERO live in?
What place is the story about?
Where in the world did HERO live?
Home of {hero}?
Can you tell me where HERO lived?
""",
        """
Tell me the place where HERO lived.
In which place was {hero}'s home?
Where exactly was the home of the {kind}?
What place did HERO live in?
""",
        "{Hero} lived {home}.",
        "{place}",
    ),
    "friend_name": _question(
        """
What was the {fkind}'s name?
What is the {fkind}'s name[ again|]?
What was the name of the {fkind}?
What is the name of the {fkind}?
What was the {fkind} called?
What is the {fkind} called?
How was the {fkind} called?
Tell me the {fkind}'s name.
[Name|The name] of the {fkind}?
I forgot the name of the {fkind}.
I forgot the {fkind}'s name. What was it?
What did you call the {fkind}?
Which name did the {fkind} have?
Who was the {fkind}?
And the {fkind}, what was [his|her] name?
And what was the {fkind}'s name?
Can you [tell me|say] the name of the {fkind}[ again|]?
Do you remember the {fkind}'s name?
What was the {fkind}'s name in [the|that|your] story?
{fkind}'s name?
""",
        """
Which name did you give the {fkind}?
Please tell me again what the {fkind} was called.
What name does the {fkind} have in the story?
""",
        "The {fkind}'s name was {friend}.",
        "{friend}",
    ),
    "friend_kind": _question(
        """
Who was {friend}?
Who is {friend}[ again|]?
What was {friend}?
What is {friend}?
What kind of [animal|character|creature] was {friend}?
What kind of [animal|character|creature] is {friend}?
What animal was {friend}?
And who was {friend}?
And {friend}? Who was that?
Was {friend} an animal or a person?
Tell me who {friend} was.
I forgot who {friend} was.
What sort of animal was {friend}?
Can you tell me who {friend} is?
Remind me, who was {friend}?
Who else was in the story?
Who else is in [the|this|that] story?
Who was with {hero}?
Who was the other one in the story?
Who was the second character?
""",
        """
Remind me who {friend} was.
And what was {friend}, an animal?
Can you tell me who else was in the story?
Was there someone else in the story?
""",
        "{Friend} was {a_friend}.",
        "{fkind}",
    ),
    "lesson": _question(
        """
What is the lesson of the story?
What was the lesson?
What is the moral[ of the story|]?
What was the moral of [that|the|this] story?
What did HERO learn?
What can we learn from [it|the story|that story]?
What do we learn from [the|this] story?
What does the story teach us?
What does [the|this] story teach?
What does the story mean?
What does the story want to say?
What is the point of the story?
What should I learn from [it|this story]?
Is there a lesson in the story?
Does the story have a moral?
And the moral?
Moral of the story?
What did you want to say with [that|the] story?
Tell me the moral of the story.
What can I learn from the story?
""",
        """
What can children learn from this story?
What lesson does the story have?
Tell me what we can learn from it.
""",
        "{Lesson}",
        "",
    ),
    "title": _question(
        """
[Give|Can you give] the story a title
What is the title of the story?
What would be a good title[ for it| for the story|]?
What should the story be called?
What is the story called?
What is the name of the story?
I need a title for [it|the story].
Find a title for the story.
Title?
A title, please.
Does the story have a title?
How would you call the story?
What would you call [it|this story|the story]?
Think of a title for this story.
Make a title for it.
Tell me the title of the story.
Give it a [name|title].
Which title does the story have?
And what is the title?
Can you name the story?
""",
        """
What title would you give the story?
Can you think of a good title?
Give me a name for this story.
""",
        'The story could be called "{title}".',
        "",
    ),
}


def _plot_question(train: str, held_out: str, answer: str, key: str) -> Question:
    """A question of one plot, its phrasings divided by ` / `."""
    return _question(train.replace(" / ", "\n"), held_out.replace(" / ", "\n"), answer, key)


_WHO_HELPED = _plot_question(
    "Who helped HIM? / Who was the helper? / Did someone help HIM? / Who gave HIM help?"
    " / And who helped HIM[ in the end|]? / Who came to help HIM? / Tell me who helped HIM. / Who was kind to HIM?",
    "Who was it that helped HIM? / Did HERO get help from someone? / I forgot who helped HIM.",
    "{friend} the {fkind} helped {hero}.",
    "{friend}",
)


def _what(verb: str, past: str, answer: str, key: str) -> Question:
    """What the hero did something to, as in `What did Pip lose?`."""
    return _plot_question(
        f"What did HERO {verb}? / And what did HERO {verb}? / What was it that HERO {past}? / Tell me what HERO {past}."
        f" / What did HERO {verb} in the story? / I forgot what HERO {past}. / HERO {past} what? / Which thing did HERO"
        f" {verb}? / What thing did HERO {verb}? / Can you tell me what HERO {past}? / Do you know what HERO {past}?",
        f"In the story, what did HERO {verb}? / Can you say what HERO {past}? / What again did HERO {verb}?",
        answer,
        key,
    )


def _who(past: str, answer: str, key: str = "{friend}") -> Question:
    """Who did something, as in `Who was hungry?`."""
    return _plot_question(
        f"Who {past}? / And who {past}? / Who was it that {past}? / Tell me who {past}. / I forgot who {past}."
        f" / Who {past} in the story? / Can you tell me who {past}? / Do you know who {past}? / Someone {past}. Who?",
        f"In the story, who {past}? / Can you say who {past}? / Who again {past}?",
        answer,
        key,
    )


def _where(past: str, did: str, answer: str, key: str) -> Question:
    """Where something was or happened."""
    return _plot_question(
        f"Where {did}? / And where {did}? / Tell me where {past}. / I forgot where {past}. / Where {did} in the story?"
        f" / Can you tell me where {past}? / In which place {did}? / Do you know where {past}?",
        f"In the story, where {did}? / Can you say where {past}? / In what place {did}?",
        answer,
        key,
    )


BY_PLOT = {
    "helper": _WHO_HELPED,
    "color": _plot_question(
        "What was the {noun} like? / How did the {noun} look? / What did the {noun} look like? / Which {noun} was it?"
        " / What kind of {noun} was it? / What kind of {noun} was in the story? / Tell me how the {noun} looked."
        " / Describe the {noun}. / What sort of {noun} was it?",
        "Tell me what the {noun} looked like. / What was it like, the {noun}? / How did that {noun} look?",
        "It was {a_thing}.",
        "{thing}",
    ),
    "lose": _what("lose", "lost", "{Hero} lost {his} {thing}.", "{noun}"),
    "found_where": _where(
        "they found the {noun}", "did they find the {noun}", "They found the {noun} {spot}.", "{spot}"
    ),
    "harm": _what("{break}", "{harm}", "{Hero} {harm} {friend}'s {thing}.", "{noun}"),
    "owner": _who("owned the {noun}", "The {noun} belonged to {friend} the {fkind}."),
    "prize": _what("win", "won", "{Hero} won {a_thing}.", "{noun}"),
    "gift": _what("give away", "gave away", "{Hero} gave {friend} {his} {thing}.", "{noun}"),
    "birthday": _who("had a birthday", "{friend} the {fkind} had a birthday."),
    "keep": _what("keep safe", "kept safe", "{Hero} kept {friend}'s {thing} safe.", "{noun}"),
    "fight": _what("fight about", "fought about", "{Hero} and {friend} fought about {a_thing}.", "{noun}"),
    "find": _what("find", "found", "{Hero} found {a_thing}.", "{noun}"),
    "wind": _plot_question(
        "What did the wind take? / What did the wind carry away? / What was in the tree? / What was stuck in the tree?"
        " / What got stuck? / What flew into the tree? / What fell out of the tree? / Tell me what the wind took."
        " / And what did the wind take?",
        "What was it that the wind took? / Which thing was stuck in the tree? / I forgot what got stuck.",
        "The wind took {hero}'s {thing}, and it got stuck in a tree.",
        "{noun}",
    ),
    "share": _what("share", "shared", "{Hero} shared {his} {food} with {friend}.", "{food}"),
    "hungry": _who("was hungry", "{friend} the {fkind} was hungry."),
    "door": _who("was at the door", "{friend} the {fkind} was at the door, wet and cold."),
    "meet": _who("had a heavy bag", "{friend} the {fkind} had a heavy bag."),
    "bag": _what("ring", "rang", "{Hero} rang a small bell.", "bell"),
    "learn": _what("learn", "learned", "{Hero} learned to {skill}.", "{skill}"),
    "teacher": _who("could {skill} well", "{friend} the {fkind} could {skill} very well."),
    "plant": _what("plant", "planted", "{Hero} planted a tiny seed.", "seed"),
    "grew": _plot_question(
        "What grew from the seed? / What did the seed become? / What came out of the seed? / What was it in the end?"
        " / What plant grew? / And what grew from the seed? / Tell me what grew. / What kind of plant was it?",
        "What grew out of the seed? / Which plant did the seed become? / What plant came from the seed?",
        "The seed became {a_plant}.",
        "{plant}",
    ),
    "want": _what("want to do", "wanted to do", "{Hero} wanted to {dream}.", "{dream_word}"),
    "build": _what("build", "built", "{Hero} built {a_build}.", "{build}"),
    "helped_build": _who("helped to build the {build}", "{friend} the {fkind} helped to build the {build}."),
    "afraid": _what("fear", "feared", "{Hero} was afraid of {fear}.", "{fear_word}"),
    "rescued": _where("{friend} was", "was {friend}", "{friend} was {f_where}.", "{f_where}"),
    "noise": _plot_question(
        "What was the noise? / What made the noise? / Where did the noise come from? / What was the strange noise?"
        " / What made that strange noise? / So what was the noise? / Tell me what the noise was. / What did they find?"
        " / Was it a ghost? / Was it a monster? / What did HERO hear?",
        "What was it that made the noise? / I forgot what the noise was. / And what was the strange noise in the end?",
        "The noise was {n_what}.",
        "{n_what}",
    ),
    "follow": _what("follow", "followed", "{Hero} followed a {color} butterfly.", "butterfly"),
    "showed": _who("showed HIM the way", "{friend} the {fkind} showed {hero} the way home."),
    "new_friend": _who("became {his} friend", "{friend} the {fkind} became {hero}'s friend."),
    "song": _who("came to HIM at night", "{friend} the {fkind} came to {hero} at night."),
}

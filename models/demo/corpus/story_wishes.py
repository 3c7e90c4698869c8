"""How people ask for a story, and how they begin one that the assistant shall carry on."""

from __future__ import annotations

from dataclasses import dataclass

from .grammar import Phrasings


@dataclass(frozen=True, slots=True)
class Mood:
    """What kind of story it shall be, in words, and the plots that are like that."""

    words: str
    plots: tuple[str, ...]
    night: bool = False


MOODS = (
    Mood("[funny|silly|short funny]", ("stuck", "noise", "build", "sleep")),
    Mood("[happy|cheerful|nice]", ("gift", "share", "build", "dream", "shy")),
    Mood("[sad|sad but nice|touching]", ("quarrel", "lost", "shy", "share")),
    Mood("[scary|spooky|little scary]", ("noise", "fear", "storm")),
    Mood("[bedtime|good night|short bedtime]", ("sleep", "seed", "journey", "dream", "shy", "lost"), night=True),
    Mood("[quiet|calm|peaceful]", ("sleep", "seed", "journey")),
    Mood("[exciting|wild|thrilling]", ("storm", "fear", "journey", "noise")),
    Mood("[sweet|warm|lovely]", ("gift", "share", "quarrel", "stranger")),
    Mood("[fairy|children's|kids]", ("dream", "seed", "stranger", "lost", "honest", "promise")),
)

REQUESTS = Phrasings(
    train=(
        "[Please tell|Tell] me {a_story}{tail}.",
        "Tell me {a_story}{tail}[, please|, will you|].",
        "[Can|Could|Will] you [please |]tell me {a_story}{tail}?",
        "[Can|Could] you [please |]write [me |]{a_story}{tail}?",
        "[Please write|Write] [me |]{a_story}{tail}.",
        "Write {a_story}{tail}[ for me| please|].",
        "I [want|would like|need] {a_story}{tail}.",
        "I [want|would like|wish] to hear {a_story}{tail}.",
        "I want you to [tell|write] {a_story}{tail}.",
        "{a_story}{tail}[, please|]",
        "story{tail}",
        "short story{tail}",
        "[Please make|Make] up {a_story}{tail}.",
        "[Can|Could] you make up {a_story}{tail}?",
        "[Do|Don't] you know {a_story}{tail}?",
        "Do you have {a_story}{tail}[ for me|]?",
        "[Let's have|Let us have|Let me hear] {a_story}{tail}.",
        "Give me {a_story}{tail}.",
        "[How|What] about {a_story}{tail}?",
        "Tell us {a_story}{tail}.",
        "Tell {a_story}{tail}.",
        "Read me {a_story}{tail}.",
        "I love stories. Tell me {a_story}{tail}.",
        "I am [bored|sad|tired]. Tell me {a_story}{tail}.",
        "My [son|daughter|child|sister|brother] wants {a_story}{tail}.",
        "I need {a_story}{tail} for my [son|daughter|class|child].",
        "We would [love|like] to hear {a_story}{tail}.",
        "Think of {a_story}{tail}[ and tell it to me|].",
        "Invent {a_story}{tail}.",
        "Hi, [can|could] you tell {a_story}{tail}?",
        "Hello! [Tell|Write] me {a_story}{tail}.",
        "It is time for {a_story}{tail}.",
        "May I have {a_story}{tail}?",
        "Would you write {a_story}{tail}?",
        "Create {a_story}{tail}.",
        "Make {a_story}{tail}.",
        "Please, {a_story}{tail}!",
    ),
    held_out=(
        "Would you tell me {a_story}{tail}?",
        "I would love to hear {a_story}{tail}.",
        "Please make up {a_story}{tail} for me.",
        "Please give me {a_story}{tail}.",
        "Can we have {a_story}{tail}?",
    ),
)

REQUESTS_ABOUT = Phrasings(
    train=(
        "Tell me {a_story}. It [should|must] be about {what}.",
        "Write {a_story}. It should be about {what}.",
        "I want {a_story}. The story should be about {what}.",
        "Tell me {a_story} [that is|which is] about {what}.",
        "Please write about {what}.",
        "Write [something|a few lines] about {what}.",
        "Can you write {a_story} that tells about {what}?",
        "Tell me {a_story} where we meet {what}.",
        "I like stories about {what}. Tell me one.",
        "Do you know any stories about {what}?",
        "[Stories|Any story] about {what}?",
        "About {what}, please. {a_story}!",
        "Can the story be about {what}?",
        "Let the story be about {what}.",
        "What happens in {a_story} about {what}?",
        "I want to read about {what}. Write {a_story}.",
        "{what}: tell me {a_story} about that.",
        "{what}. Make {a_story} of that.",
        "Make {what} into {a_story}.",
        "My topic is {what}. Write {a_story}.",
        "The topic is {what}. Tell me {a_story}.",
        "Use this in {a_story}: {what}.",
    ),
    held_out=(
        "I want to hear about {what} in {a_story}.",
        "Write {a_story}. The topic is {what}.",
        "Do you have any stories about {what}?",
        "Tell me {a_story}, and let it be about {what}.",
    ),
)

ANOTHER = Phrasings(
    train=(
        "[Another|One more|A new] story[, please|]!",
        "Tell me another [story|one|tale].",
        "[Can|Could] you tell me [another|one more] story?",
        "Tell me one more[ story|].",
        "I want another story.",
        "Story[ time|], please!",
        "It is story time.",
        "Tell me any story[ you like| you know|].",
        "Tell me a story about anything.",
        "Tell me your [favorite|best] story.",
        "Surprise me with a story.",
        "[Do|Don't] you know any stories?",
        "What stories do you know?",
        "Do you know any [good|nice] stories?",
        "[Can|Could] you tell stories?",
        "Are you able to tell a story?",
        "I like stories. Do you know one?",
        "Let me hear a new story.",
        "I am bored. Tell me something[ nice|].",
        "I can't sleep. Tell me something.",
        "Make something up.",
        "Once upon a time...",
        "Entertain me.",
        "Write something nice.",
        "Tell me a tale, any tale.",
    ),
    held_out=(
        "Could I have another story?",
        "I want to hear one more story.",
        "Do you know another good story?",
        "Can you write any story you like?",
    ),
)

ABOUT_ME = Phrasings(
    train=(
        "My name is {hero}, and I am a {kind}. [Tell|Write] me a story about me.",
        "Tell me a story about me. [My name is|I am] {hero}, and I am a {kind}.",
        "I am {hero}. Can you tell a story about me?",
        "[Tell|Write] a story with my name in it. I am a {kind} named {hero}.",
        "My name is {hero}. I want to be in the story.",
        "I am a {kind}, and my name is {hero}. I want a story about me.",
        "My child is called {hero}. Tell a story about {him}.",
        "My child is named {hero}. Write a story about {him}.",
        "Can I be in a story? I am {hero}.",
        "Tell me a story about a {kind} like me. My name is {hero}.",
    ),
    held_out=(
        "I am {hero}. I want a story with my name in it.",
        "Write me a story about me, {hero}.",
        "My name is {hero}. Can I be in a story?",
    ),
)

STARTS = Phrasings(
    train=(
        "Once upon a time, there was {a_hero} named {hero} who {who}.",
        "Once upon a time, there was {a_kind} [named|called] {hero} who {who}.",
        "Once upon a time there was {a_kind}. {His} name was {hero}, and {he} {who}.",
        "Once upon a time, {a_hero} named {hero} {who}.",
        "There was once {a_hero} [named|called] {hero} who {who}.",
        "There once was {a_kind} named {hero} who {who}.",
        "{hero} was {a_hero} who {who}.",
        "{hero} was {a_kind}. {He} {who}.",
        "{hero} the {kind} {who}.",
        "{hero} {who}. {He} was {a_hero}.",
        "{A_hero} named {hero} {who}.",
        "{A_hero} called {hero} {who}.",
        "Long ago, {a_hero} named {hero} {who}.",
        "Long, long ago, there was {a_kind} named {hero}. {He} {who}.",
        "Far away, there was {a_hero} called {hero} who {who}.",
        "I know {a_kind} named {hero} who {who}.",
        "This is the story of {hero}, {a_hero} who {who}.",
        "In a far land, there was {a_hero} named {hero}. {hero} {who}.",
        "Many years ago, {a_kind} named {hero} {who}.",
        "There lived {a_hero} whose name was {hero}. {He} {who}.",
    ),
    held_out=(
        "Long ago, there was {a_hero} called {hero} who {who}.",
        "This is the story of {a_kind} named {hero}. {He} {who}.",
        "In a far land, {a_hero} named {hero} {who}.",
        "There was {a_kind} whose name was {hero}. {hero} {who}.",
    ),
)

WRAPPERS = Phrasings(
    train=(
        "{start}",
        "{start}",
        "{start}",
        "{start}",
        "[Please continue|Continue] this story: {start}",
        "Continue[ the story|]: {start}",
        "[Can|Could] you [please |]continue this story? {start}",
        "{start} Continue[ the story| this story| please|].",
        "[Go on|Please go on] with this story: {start}",
        "{start} [Go on|Please go on|Keep going].",
        "{start} [What happened next?|And then?|What happens next?|What happened then?]",
        "[Finish|Please finish|Complete] this story: {start}",
        "Can you finish my story? {start}",
        "{start} [Finish the story|Tell me the rest|Tell me more].",
        "Here is the beginning of a story: {start} [Tell me the rest.|How does it go on?|Write the rest.]",
        "This is how my story begins: {start}",
        "My story [begins|starts] like this: {start} [Please continue.|What comes next?|]",
        "Write what happens next: {start}",
        "Tell me what happens next. {start}",
        "Help me with my story. {start}",
        "Write a story that [begins|starts] with this: {start}",
        "Tell me a story that [begins|starts] like this: {start}",
        "Story: {start}",
        "I wrote this: {start} Can you go on?",
        "How does this story go on? {start}",
        "Tell the rest of this story. {start}",
    ),
    held_out=(
        "Please go on with my story: {start}",
        "{start} How does the story go on?",
        "Here is how my story begins. {start} Please finish it.",
        "Write the rest of this story: {start}",
    ),
)

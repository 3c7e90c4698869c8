"""Moods, favourites, advice and news of the day: small talk whose phrases are shared by many themes."""

from __future__ import annotations

from .small_talk_phrases import Intent, intent, phrasings

MOOD = phrasings(
    """I am {mood}. / I'm {mood}. / I feel {mood}. / I am [so|very|really|a bit] {mood}. / I'm [so|very|really|a bit]
    {mood} [today|right now|tonight|]. / I am feeling {mood} [today|]. / I'm feeling [so|very|] {mood} / I feel
    [so|very|really] {mood} [today|]. / Today I am {mood}. / Today I feel [so|very|] {mood}. / [Right now|Tonight] I am
    {mood}. / I am {mood}, [what can I do|what should I do|can you help me|help me]? / I feel {mood}, [what now|what can
    I do]? / I have been {mood} [all day|since this morning|for days|today]. / I was {mood} [all day|yesterday|]. / Why
    am I [so|always] {mood}? / I am {mood} again. / You know, I am {mood}. / I think I am {mood}. / Oh, I am so {mood}!
    / Can I tell you something? I am {mood}. / [Hi|Hello|Hey], I am {mood}. / I am just {mood}. / What can I do when I
    am {mood}? / What helps when I feel {mood}? / So {mood} / So {mood} today! / I am {mood} and I want to talk. / I
    felt {mood} [today|all day|this morning]. / I have felt {mood} all day. / What do you do if you are {mood}? / I get
    {mood}. / It is a day when I feel {mood}. / I am too {mood} to work.""",
    """Help, I am really {mood}! / I have felt {mood} since yesterday. / Today I have been very {mood}. / What should I
    do if I feel {mood}? / Hey, I feel a bit {mood} tonight""",
)

MOODS = (
    (
        "bored",
        "Let us do something about that! I can tell you a joke, ask you a riddle or write a short poem.",
        "joke, riddle, poem",
    ),
    (
        "tired|sleepy|exhausted",
        "Then take a break. Drink some water, close your eyes and rest a little.",
        "rest, break",
    ),
    (
        "sad|unhappy|down|lonely|not happy",
        "I am sorry to hear that. A walk or a talk with a friend may help. I am here to chat.",
        "sorry",
    ),
    ("happy|glad|cheerful|joyful", "That is great to hear! What made you happy?", "great, happy"),
    (
        "angry|mad|furious|upset",
        "I am sorry to hear that. Breathe in slowly, count to ten and take a short walk.",
        "breathe, walk",
    ),
    (
        "sick|ill|not well|unwell",
        "I am sorry to hear that. Please rest, drink enough and ask a doctor.",
        "rest, doctor",
    ),
    (
        "nervous|afraid|scared|worried|stressed",
        "That is normal. Breathe in slowly and take one small step at a time. You can do it!",
        "breathe, you can do it",
    ),
    ("hungry", "Then it is time to eat something! How about some bread, an apple or a warm soup?", "eat"),
    ("thirsty", "Then drink a glass of water or a cup of tea!", "drink"),
    ("cold|freezing", "Then put on a warm coat and drink a cup of hot tea!", "warm, hot"),
    ("hot", "Then drink some cold water and sit in the shade!", "water, shade"),
)
"""Adjectives, the answer, and words of which a right answer has one."""

FAVORITE = phrasings(
    """What is your [favorite|favourite] {thing}? / What's your [favorite|favourite] {thing} / Your [favorite|favourite]
    {thing}? / Do you have a [favorite|favourite] {thing}? / Which {thing} do you [like|like best|like
    most|love|prefer]? / What {thing} do you [like|like best|like most|love]? / Tell me your [favorite|favourite]
    {thing}. / Which {thing} is your [favorite|favourite]? / Is there any {thing} you like? / Have you got a
    [favorite|favourite] {thing}? / What kind of {thing} do you [like|love]? / Do you like any {thing}? / Please tell me
    your [favorite|favourite] {thing}. / [Favorite|Favourite] {thing}? / And what is your [favorite|favourite] {thing}?
    / [Hey|So], what is your [favorite|favourite] {thing}? / The {thing} you like best? / Name your [favorite|favourite]
    {thing}. / I want to know your [favorite|favourite] {thing}. / What would be your [favorite|favourite] {thing}? /
    Which {thing} would you [choose|like best]? / Pick one {thing} you like. / What is the {thing} that you like most? /
    What {thing} is your [favorite|favourite]?""",
    """Is there any {thing} that you love most? / Can you tell me your [favorite|favourite] {thing}? / So which {thing}
    would you pick? / What is the best {thing} for you?""",
)

FAVORITES = (
    ("color|colour", "I am a program and cannot see colors, but I would pick blue, like the sea.", "blue"),
    (
        "animal|pet",
        "I am a program without a pet, but I would pick the ant: it is small and works hard, like me.",
        "ant",
    ),
    ("food|dish|meal", "I am a program and cannot eat, but I like the sound of cookies and chips.", "cookies, chips"),
    ("drink", "I am a program and cannot drink, but I like the smell of the word tea.", "tea"),
    ("book|kind of book", "I am a program and I have no shelf, but I would pick a book with many small words.", "book"),
    ("music|song", "I am a program and cannot hear, but I like the quiet hum of a computer.", "hum"),
    ("sport|game", "I am a program and cannot run far, but I like games with words.", "words"),
    (
        "season|time of the year",
        "I am a program and feel no weather, but I would pick winter: computers like it cool.",
        "winter",
    ),
)

ADVICE_OPENINGS = """
    Give me [some|] advice [for|on|about] {theme}. / Can you give me [some|] advice [for|on] {theme}? / Do you have
    [any|some|] [tips|advice|ideas] for {theme}? / [Tips|Advice|Ideas|Help] for {theme} / I need
    [tips|advice|help|ideas] for {theme}. / Please give me [a tip|tips|advice] for {theme}. / What is your advice for
    {theme}? / Tell me something that helps with {theme}. / Any [tips|advice|ideas] for {theme}? / [How about|What
    about] some tips for {theme}? / What helps with {theme}? / Help me with {theme}. / Can you help me with {theme}? /
    I would like some advice on {theme}. / Some tips for {theme}, please.
"""
ADVICE_HELD_OUT = """
    Could you give me a few tips for {theme}? / I need a bit of advice about {theme}. / What would help me with {theme}?
"""


def advice(theme: str, train: str, held_out: str, answer: str, words: str) -> Intent:
    """An intent that asks for advice: with the shared openings, and in words of its own."""
    shared, unseen = (text.strip().replace("{theme}", theme) for text in (ADVICE_OPENINGS, ADVICE_HELD_OUT))
    return intent(f"{shared} / {train}", f"{unseen} / {held_out}", answer, words)


THEMES = (
    advice(
        "[better sleep|good sleep|sleep|sleeping|sleeping better|falling asleep]",
        """I cannot sleep. / I can't sleep [at night|]. / How can I sleep [better|well|faster]? / How do I fall asleep
        [fast|]? / I sleep badly. / What can I do to sleep [better|well]? / I lie awake at night. / What helps me to
        sleep? / I did not sleep well. / I want to sleep better. / I am always awake at night. / Help me to sleep.""",
        """What should I do to fall asleep? / I lie awake and cannot sleep. / How can I sleep well at night?""",
        "Go to bed at the same time each day, keep the room dark and put your phone away.",
        "bed, dark, phone",
    ),
    advice(
        "[learning|learning better|studying|learning new words|learning at school|learning something new]",
        """How can I learn [better|faster|well]? / How do I learn [new words|something new|fast]? / What is the best way
        to learn? / How should I learn? / I want to learn [better|faster|something new]. / Learning is hard [for me|]. /
        What can I do to learn [better|faster]? / I cannot remember what I learn. / How do I study [well|better]? / Help
        me to learn.""",
        """What is a good way to learn something new? / How should I study to learn faster? / I want to learn well.""",
        "Learn a little each day, say it in your own words and take short breaks.",
        "each day, breaks, little",
    ),
    advice(
        "[a rainy day|rainy days|a day with rain|a rainy weekend]",
        """What can I do [on a rainy day|when it rains|in the rain]? / What should I do [on a rainy day|when it rains]?
        / What is there to do on a rainy day? / It rains and I don't know what to do. / What do people do when it rains?
        / What to do on a rainy day? / I am at home because it rains, what now? / Give me an idea for a rainy day.""",
        """It rains, what should I do at home? / What is a good idea when it rains? / What can people do on a rainy
        weekend?""",
        "Read a good book, bake a cake or play a game with someone at home.",
        "book, bake, game",
    ),
    advice(
        "[making friends|finding friends|finding new friends|meeting people|making new friends]",
        """How can I [make|find] [new|] friends? / How do I [make|find] [a friend|friends|new friends]? / I have no
        friends. / I want [to make|to find|] [new|] friends. / How do people make friends? / Where can I find friends? /
        I don't know how to make friends. / What can I do to make friends? / I am new here and have no friends. / I need
        friends.""",
        """What should I do to find new friends? / I want to know how people find a friend. / I am new at school, how do
        I meet people?""",
        "Smile, say hello and ask people what they like. Be kind and give it time.",
        "smile, kind, hello",
    ),
    intent(
        """Say something nice [to me|]. / Tell me something nice. / Say something [kind|good|sweet]. / Give me a
        compliment. / Can you say something nice? / Please say something nice [to me|]. / Make me a compliment. / I need
        a compliment. / Be nice to me. / Make me smile. / Make me happy. / Tell me something [good|kind|sweet]. / Say a
        nice thing. / A compliment, please. / Something nice, please. / I need some kind words. / Give me some kind
        words. / Say nice things [to me|]. / Could you give me a compliment? / Cheer me up! / Please cheer me up. / Can
        you cheer me up? / I want to hear something nice.""",
        """Could you tell me something nice? / I would like a compliment. / Please make me a bit happy. / Can you say
        some kind words to me?""",
        "You ask good questions, and the world is nicer with you! / You are kind, and you make this chat a good one!",
        "nicer, good, kind",
    ),
    intent(
        """Encourage me. / Please encourage me. / Give me [some|] encouragement. / I need [some|a bit of|]
        encouragement. / I [cannot|can't] do [it|this|that]. / I give up. / I want to give up. / I will never [make
        it|do it|learn it]. / I failed [again|]. / I am not good enough. / It is too hard for me. / Motivate me. / Give
        me [courage|hope]. / I need [courage|hope| motivation]. / Tell me that I can do it. / Can I do it? / Do you
        think I can do it? / Will I make it? / Nothing works. / I am bad at everything. / Everything goes wrong. / I
        [feel like|think] I cannot do it. / I do not believe in myself. / Life is hard. / I [lost|have lost] hope. / Say
        something to give me hope. / Can you motivate me? / I am so bad at this.""",
        """Can you encourage me a bit? / I think I will never do it. / I failed and want to give up. / Please give me
        some hope and motivation.""",
        "You can do it! Take one small step today and another one tomorrow.",
        "you can do it, step",
    ),
    intent(
        """Surprise me! / Surprise me / Please surprise me. / Can you surprise me? / Surprise! / Show me a surprise. /
        Give me a surprise. / I want a surprise. / Say something [surprising|random|crazy|unexpected]. / Tell me
        something [surprising|random| unexpected|crazy]. / Do something [surprising|random|crazy|unexpected]. / Say
        anything. / Tell me anything. / Just say something. / Say something. / Tell me something. / Something random,
        please. / Talk to me. / Entertain me. / Please entertain me. / Start a chat. / You choose. / Do what you like. /
        Write anything you like. / Show me what you can say.""",
        """I would like a surprise, please / Could you tell me something crazy? / Please say something random. / Just
        tell me anything you like""",
        "Here is a surprise: all that I know fits into one small file! "
        "/ Here is a surprise: I learned all my words in about an hour!",
        "surprise",
    ),
    intent(
        """My day was [good|great|nice|wonderful|fun|very good|really nice|perfect]. / My day was so [good|nice]! / I
        had a [good| great|nice|wonderful|very good|lovely] day. / Today was [good|great|wonderful|a good day|a great
        day|fun|nice]. / It was a [good|great|nice|lovely] day. / My [morning|evening|weekend|week] was
        [good|great|nice|fun]. / I had a [good|great|nice| lovely] [weekend|week|morning|evening]. / I am having a
        [good|great|nice] day. / What a [good|great|lovely|nice] day! / This is a [great|good|lovely] day! / Today is a
        good day. / Everything went well today. / I am fine [today|]. / I am fine, thank you. / I am
        [well|good|okay|doing well|doing fine], thanks. / I'm fine, thanks. / I'm [good|well|okay]. / Fine, thanks. /
        Good, and you? / I am fine, and you? / Very well, thank you. / Great, thanks! / My day is going well.""",
        """I really had a very nice day today / Today everything was good and fun. / My weekend was wonderful! / I am
        doing good, thank you.""",
        "That is great to hear! What was the best part?",
        "great, glad",
    ),
    intent(
        """My day was [bad|terrible|hard|long|not good|boring|very bad|really hard]. / My day was so [bad|long|hard]! /
        I had a [bad|terrible|hard|long|very bad|boring] day. / Today was [bad|terrible|a bad day|hard|not good|a hard
        day]. / It was a [bad|terrible|hard|long] day. / My [morning|evening|weekend|week] was
        [bad|terrible|hard|boring]. / I had a [bad| terrible|hard] [weekend|week|morning|evening]. / I am having a
        [bad|terrible|hard] day. / What a [bad|terrible| hard] day! / This is a [bad|terrible|hard] day. / Today is not
        my day. / Everything went wrong today. / I am not fine. / I am not [okay|so good|doing well]. / Not so good. /
        Not good. / Bad day. / Bad, really bad. / Work was [hard|bad|terrible] today. / School was
        [hard|bad|boring|terrible] today. / My day is going badly.""",
        """I really had a very hard day today / Today everything was bad and went wrong. / My weekend was so bad,
        everything went wrong! / I am not doing so good.""",
        "I am sorry to hear that. I hope tomorrow is a better day!",
        "sorry",
    ),
    intent(
        """The weather [today|] is [nice|good|great|lovely|sunny|warm|beautiful]. / The weather is [so|very|really]
        [nice|good|lovely| warm] today. / It is [sunny|warm|a sunny day|a warm day|nice and warm] [today|outside|here|].
        / The sun is [shining|out] [today|]. / The sky is blue [today|]. / What [nice|lovely|beautiful|great|good]
        weather! / We have [nice|good|great|sunny] weather [today|]. / Today it is [sunny|warm|sunny and warm]. / Nice
        weather today! / Such nice weather! / It is so sunny! / Sunny day today / There is not a cloud in the sky. / It
        is a lovely sunny day. / Here it is sunny. / The sun is so warm today.""",
        """Today the weather is so beautiful / We have a lovely warm day here. / It is very sunny outside today. / What
        a sunny day!""",
        "That sounds lovely! Enjoy the sun and go outside for a bit.",
        "sun, enjoy, lovely",
    ),
    intent(
        """The weather [today|] is [bad|terrible|rainy|cold|gray|ugly]. / The weather is [so|very|really]
        [bad|cold|rainy] today. / It is [raining|snowing|cold|windy|rainy|gray|cloudy|stormy|foggy]
        [today|outside|here|]. / It [rains|snows] [today| outside|all day|again|]. / What [bad|terrible] weather! / We
        have [bad|terrible|rainy|cold] weather [today|]. / Today it is [cold|raining|rainy|windy|gray|snowing|cloudy]. /
        Bad weather today. / So much [rain|snow|wind]! / It is raining again. / Rain, rain, rain! / There is [a
        storm|rain|snow|fog] outside. / The sky is gray. / It is a [cold|rainy|gray|windy] day. / It has been raining
        [all day|for days]. / Here it is [raining|snowing|windy].""",
        """Today the weather is so cold and gray / We have a rainy and windy day here. / It is very stormy outside. /
        Such bad weather!""",
        "Then stay warm and dry inside. It is good weather for a book and a cup of tea!",
        "inside, warm, book",
    ),
)

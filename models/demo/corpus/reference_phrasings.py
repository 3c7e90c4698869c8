"""The wordings with which users tell things about themselves, ask for them later, and correct them."""

from __future__ import annotations

from .grammar import Phrasings

TOLD: dict[str, Phrasings] = {
    "name": Phrasings(
        (
            "My name is {value}.", "[Hi, |Hello, |]I am {value}.", "[Hi|Hello], I'm {value}.", "I am called {value}.",
            "[You can call|Call] me {value}.", "People call me {value}.", "[Hello! |]My name's {value}.",
            "This is {value}.", "{value} is my name.", "[Hi|Hello], {value} here.", "Name: {value}.",
        ),
        ("Hello there, my name is {value}.", "They call me {value}.", "Hi, you can call me {value}."),
    ),
    "age": Phrasings(
        (
            "I am {value} years old.", "I'm {value} years old.", "My age is {value}.",
            "I turned {value} [today|last week].", "I am {value}.", "By the way, I am {value} years old.",
            "I just turned {value}.", "I'm already {value}.",
        ),
        ("I am already {value} years old.", "By the way, my age is {value}."),
    ),
    "city": Phrasings(
        (
            "I live in {value}.", "My home is in {value}.", "I am from {value}.", "I come from {value}.",
            "My home town is {value}.", "I have a [house|small flat] in {value}.", "I moved to {value}[ last year|].",
            "I'm from {value}.", "I've lived in {value} for [two|ten] years.",
        ),
        ("My house is in {value}.", "By the way, I live in {value}.", "I have lived in {value} for ten years."),
    ),
    "pet": Phrasings(
        (
            "I have a {kind} called {value}.", "I have a {kind}. [Its|The] name is {value}.",
            "My {kind} is called {value}.", "My {kind}'s name is {value}.", "The name of my {kind} is {value}.",
            "I've got a {kind} named {value}.", "{value} is my {kind}.", "I have a {kind} and it is called {value}.",
            "We have a {kind} called {value}.",
        ),
        ("I have a {kind} named {value}.", "My {kind} has the name {value}."),
    ),
    "job": Phrasings(
        (
            "I am {value}.", "I'm {value}.", "I work as {value}.", "My job: I am {value}.", "For work, I am {value}.",
            "I have a job as {value}.", "I got a job as {value}.", "By the way, I am {value}.",
        ),
        ("My work: I am {value}.", "By the way, I work as {value}."),
    ),
    "hobby": Phrasings(
        (
            "I like {value}.", "I love {value}.", "I enjoy {value}.", "My hobby is {value}.", "I really like {value}.",
            "In my free time I like {value}.", "{capital} is my hobby.", "{capital} is what I like.",
        ),
        ("In my free time I enjoy {value}.", "My favorite hobby is {value}."),
    ),
    "color": Phrasings(
        (
            "My [favorite|favourite] color is {value}.", "I like the color {value} best.",
            "{capital} is my favorite color.", "The color I like most is {value}.", "My best color is {value}.",
            "Of all colors I like {value} most.",
        ),
        ("The color I like best is {value}.", "I think {value} is the best color."),
    ),
    "food": Phrasings(
        (
            "My [favorite|favourite] food is {value}.", "{capital} is my favorite food.", "I like to eat {value}.",
            "The food I like most is {value}.", "I love to eat {value}.", "Of all food I like {value} most.",
        ),
        ("The food I like best is {value}.", "I love {value}. It is my favorite food."),
    ),
    "plan": Phrasings(
        (
            "This weekend I will {value}.", "I will {value} on the weekend.", "On the weekend I want to {value}.",
            "My plan for the weekend is to {value}.", "I want to {value} this weekend.", "My weekend plan: {value}.",
            "I am going to {value} this weekend.", "I plan to {value} on the weekend.",
        ),
        ("For the weekend, I plan to {value}.", "I will {value} this weekend."),
    ),
    "friend": Phrasings(
        (
            "My [best |good |]friend is called {value}.", "My [best |]friend's name is {value}.",
            "I have a [good |]friend called {value}.", "{value} is my [best |]friend.", "My [best |]friend is {value}.",
            "The name of my friend is {value}.", "I met my friend {value} today.",
        ),
        ("I have a friend named {value}.", "My friend has the name {value}."),
    ),
    "number": Phrasings(
        (
            "My number is {value}.", "I picked the number {value}.", "I am thinking of the number {value}.",
            "Remember the number {value}.", "My lucky number is {value}.", "Keep this number: {value}.",
            "I chose {value} as my number.", "I choose the number {value}.", "Remember this number: {value}.",
        ),
        ("I chose the number {value}.", "Please remember my number: {value}."),
    ),
    "list": Phrasings(
        (
            "I need to buy {value}.", "I have to buy {value}.", "I want to buy {value}.", "My list: {value}.",
            "On my list: {value}.", "I must get {value}.", "My shopping list is {value}.",
            "Put {value} on my list.", "Remember my list: {value}.", "I am going to the shop for {value}.",
        ),
        ("My shopping list: {value}.", "Today I have to get {value}.", "Please put {value} on my shopping list."),
    ),
}  # fmt: skip

ASKED: dict[str, Phrasings] = {
    "name": Phrasings(
        (
            "[What's|What is] my name[, please|]?", "Who am I?", "My name?", "Do you know my name?",
            "Do you remember my name?", "What am I called?", "What did I say my name was?",
            "[Can|Could] you say my name?", "Tell me my name[, please|].", "Say my name.",
            "[And|So|Now], what is my name?", "What was my name[ again|]?", "Do you still know my name?",
            "Which name did I tell you?", "What name did I give you?", "Who are you talking to?", "How am I called?",
            "I forgot my name. What is it?", "Do you know who I am?", "Tell me who I am.", "What do people call me?",
            "Have you forgotten my name?", "[Can|Could] you tell me my name?", "What is the name I told you?",
            "Do you remember who I am?", "I told you my name. What is it?",
        ),
        (
            "Do you still remember what my name is?", "Please tell me what I am called.", "What name did I tell you?",
            "Could you tell me who I am?",
        ),
    ),
    "age": Phrasings(
        (
            "How old am I?", "[What's|What is] my age?", "My age?", "Do you know how old I am?",
            "Do you remember my age?", "Tell me [my age|how old I am][, please|].", "What did I say my age was?",
            "How many years old am I?", "How old did I say I am?", "[Can|Could] you tell me [my age|how old I am]?",
            "[And|So], how old am I[ now|]?", "What was my age again?", "Do you still know my age?",
            "Which age did I tell you?", "I forgot my age. What is it?", "Say how old I am.", "What age am I?",
            "Do you remember how old I am?", "I told you my age. What is it?", "How old was I again?",
            "Do you know my age?",
        ),
        (
            "What age did I tell you?", "Please say my age.", "Do you still remember how old I am?",
            "And what is my age?",
        ),
    ),
    "city": Phrasings(
        (
            "Where do I live?", "Where am I from?", "[What's|What is] my [city|town|home town]?",
            "Which [city|town] do I live in?", "In which [city|town] do I live?", "Do you know where I live?",
            "Do you remember where I live?", "Where is my home?", "Tell me where I live[, please|].",
            "Where did I say I live?", "[Can|Could] you tell me where I live?", "Where do I come from?", "My city?",
            "[And|So], where do I live?", "What [city|town] am I from?", "Where's my home?",
            "Do you still know where I live?", "Which city did I tell you?", "I told you where I live. Where is it?",
            "Where did I say I am from?", "Do you know my city?", "In what town is my home?", "Where was I from again?",
        ),
        (
            "Do you remember where I am from?", "Please say where I live.", "What town do I come from?",
            "In which city is my home?",
        ),
    ),
    "pet": Phrasings(
        (
            "What is my {kind} called?", "[What's|What is] my {kind}'s name?",
            "[What's|What is] the name of my {kind}?", "My {kind}'s name?", "Do you know my {kind}'s name?",
            "Do you remember the name of my {kind}?", "What did I say my {kind} is called?",
            "Tell me my {kind}'s name[, please|].", "How is my {kind} called?",
            "[Can|Could] you tell me the name of my {kind}?", "Which name does my {kind} have?",
            "What do I call my {kind}?", "What was my {kind}'s name[ again|]?", "What was the name of my {kind}?",
            "[And|So], what is my {kind} called?", "Do you still know what my {kind} is called?",
            "I have a {kind}. What is its name?", "Say the name of my {kind}.", "Who is my {kind}?",
            "What name did I give my {kind}?", "I told you the name of my {kind}. What is it?",
            "The name of my {kind}?",
        ),
        (
            "Do you remember what my {kind} is called?", "Please tell me the name of my {kind}.",
            "What name does my {kind} have?", "What's my {kind} called again?",
        ),
    ),
    "job": Phrasings(
        (
            "[What's|What is] my job?", "What do I do[ for work|]?", "What do I work as?", "My job?",
            "Do you know my job?", "Do you remember [my job|what I do]?", "Tell me [my job|what my job is][, please|].",
            "Which job do I have?", "What did I say my job is?", "[Can|Could] you tell me my job?",
            "What is it that I do for work?", "[And|So], what is my job?", "What kind of work do I do?",
            "What was my job again?", "What job do I have?", "Do you still know my job?", "Which job did I tell you?",
            "I told you my job. What is it?", "What is my work?", "Say what my job is.",
            "Do you know what I do for work?",
        ),
        (
            "Do you still remember my job?", "What work do I do?", "Please say what I do for work.",
            "What job did I tell you?",
        ),
    ),
    "hobby": Phrasings(
        (
            "[What's|What is] my hobby?", "What do I like?", "What do I like to do?", "What did I say I like?",
            "My hobby?", "What do I enjoy?", "What do I do in my free time?", "Do you know my hobby?",
            "Do you remember my hobby?", "Do you remember what I like?", "Tell me [my hobby|what I like][, please|].",
            "What do I love?", "[Can|Could] you tell me what I like?", "What was my hobby again?",
            "[And|So], what is my hobby?", "Which hobby do I have?", "What do I like doing?",
            "What did I tell you I like?", "Do you still know what I like?", "I told you my hobby. What is it?",
            "Say what I like.",
        ),
        (
            "What hobby do I have?", "Please tell me what I like to do.", "What did I say I enjoy?",
            "Do you know what I like?",
        ),
    ),
    "color": Phrasings(
        (
            "[What's|What is] my [favorite|favourite] color?", "Which color do I like[ best| most|]?",
            "My favorite color?", "What color do I like[ best| most|]?", "Do you know my favorite color?",
            "Do you remember my favorite color?", "Tell me my favorite color[, please|].",
            "What did I say my favorite color is?", "Which is my favorite color?",
            "[Can|Could] you tell me my favorite color?", "What color did I say I like?", "Which color did I tell you?",
            "[And|So], what is my favorite color?", "What was my favorite color[ again|]?", "Say my favorite color.",
            "Of all colors, which do I like most?", "What is the color I like?", "My best color?", "The color I like?",
            "Do you still know my color?", "I told you my favorite color. What is it?",
        ),
        (
            "Do you still remember my favorite color?", "Please tell me which color I like.",
            "What is the color I like best?", "Which color is my favorite?",
        ),
    ),
    "food": Phrasings(
        (
            "[What's|What is] my [favorite|favourite] food?", "Which food do I like[ best| most|]?",
            "My favorite food?", "What food do I like[ best| most|]?", "Do you know my favorite food?",
            "Do you remember my favorite food?", "Tell me my favorite food[, please|].",
            "What did I say my favorite food is?", "What do I like to eat?",
            "[Can|Could] you tell me my favorite food?", "What food did I say I like?", "Which food did I tell you?",
            "[And|So], what is my favorite food?", "What was my favorite food[ again|]?", "What do I love to eat?",
            "What should I eat? What do I like?", "What is the food I like?", "What did I say I like to eat?",
            "Do you know what I like to eat?", "Which is my favorite food?", "I told you my favorite food. What is it?",
        ),
        (
            "Do you still remember my favorite food?", "Please tell me which food I like.",
            "What is the food I like best?", "Do you remember what I like to eat?",
        ),
    ),
    "plan": Phrasings(
        (
            "[What's|What are] my plans for the weekend?", "What is my plan for the weekend?", "My weekend plan?",
            "What will I do [on the|this] weekend?", "What do I want to do [on the|this] weekend?",
            "What is my weekend plan?", "What did I say I will do [on the|this] weekend?",
            "Tell me my plan for the weekend[, please|].", "Do you know my weekend plan?",
            "Do you remember my plan for the weekend?", "What was my plan for the weekend?",
            "What am I going to do [on the|this] weekend?", "What do I plan for the weekend?", "And my weekend?",
            "[Can|Could] you tell me my plan for the weekend?", "What do I have planned for the weekend?",
            "What did I plan for the weekend?", "Which plan do I have for the weekend?",
            "So, what will I do this weekend?", "I told you my weekend plan. What is it?",
            "What did I want to do on the weekend?",
        ),
        (
            "Do you still know my plan for the weekend?", "Please tell me what I will do on the weekend.",
            "What did I tell you about my weekend?", "What do I plan to do this weekend?",
        ),
    ),
    "friend": Phrasings(
        (
            "What is my [best |]friend called?", "[What's|What is] my [best |]friend's name?", "My friend's name?",
            "[What's|What is] the name of my friend?", "Who is my [best |]friend?", "Do you know my friend's name?",
            "Do you remember my friend's name?", "Do you remember the name of my friend?", "Say the name of my friend.",
            "Tell me my friend's name[, please|].", "[Can|Could] you tell me my friend's name?",
            "How is my friend called?", "What did I say my friend is called?", "What was my friend's name[ again|]?",
            "Which name does my friend have?", "[And|So], who is my friend?", "What do I call my friend?",
            "Do you know who my friend is?", "Who's my friend?", "Who did I say my friend is?",
            "I told you about my friend. What is the name?", "The name of my friend?",
        ),
        (
            "Do you still know my friend's name?", "Please tell me what my friend is called.",
            "What name does my friend have?", "Could you say who my friend is?",
        ),
    ),
    "number": Phrasings(
        (
            "[What's|What is] my [lucky |]number?", "My number?", "Which number did I [pick|choose|tell you]?",
            "What number did I [pick|choose|tell you|say]?", "Do you know my number?", "Do you remember my number?",
            "Do you remember the number?", "What was [my|the] number[ again|]?", "Tell me my number[, please|].",
            "Say my number.", "[Can|Could] you tell me my number?", "Which number am I thinking of?",
            "What is the number?", "What number am I thinking of?", "[And|So], what is my number?",
            "Which number did you have to remember?", "Which number is mine?", "Do you still know my number?",
            "I told you a number. Which one?", "The number, please.", "What is the number I told you?",
            "Give me my number.",
        ),
        (
            "Do you still remember the number?", "Please say which number I picked.", "What number is mine?",
            "Can you say the number I told you?",
        ),
    ),
    "list": Phrasings(
        (
            "What was on my [shopping |]list?", "What is on my [shopping |]list?",
            "[What's|What is] my [shopping |]list?", "My list[, please|]?", "What do I [need|have] to buy?",
            "What did I want to buy?", "What do I want to buy?", "Do you remember my list?",
            "Do you remember what I need to buy?", "Tell me my [shopping |]list[, please|].",
            "What did I say I need to buy?", "[Can|Could] you tell me what is on my list?", "What must I buy?",
            "[And|So], what is on my list?", "Which things are on my list?", "Say my list[ again|].",
            "What should I buy?", "What do I need from the shop?", "What do I have to get?", "Read me my list.",
            "Show me my [shopping |]list.", "I am at the shop. What do I need?", "What things do I need to buy?",
            "I forgot my list. What was on it?",
        ),
        (
            "Which things do I have to buy?", "Do you still know what is on my shopping list?",
            "What did I put on my list?", "Please tell me what I need to buy.",
        ),
    ),
}  # fmt: skip

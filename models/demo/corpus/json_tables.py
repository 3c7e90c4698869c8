"""Words, sentences, and small facts that the JSON examples are made of."""

from __future__ import annotations

JOBS = (
    "teacher doctor baker driver nurse farmer cook painter pilot singer writer gardener dentist lawyer engineer actor "
    "waiter artist builder dancer judge plumber tailor sailor programmer designer manager photographer scientist"
).split()

HOBBIES = (
    "swimming,running,reading,cooking,dancing,painting,chess,football,tennis,singing,hiking,fishing,drawing,cycling,"
    "gardening,skiing,yoga,music,baking,sewing,climbing,sailing,writing,photography,basketball,video games"
).split(",")

PETS = "dog cat rabbit hamster parrot fish turtle horse mouse duck goat pony snake frog owl hen".split()

ITEMS = (
    "apples pears pens books chairs lamps cups plates shoes shirts pizzas eggs candles tickets bags bottles boxes keys "
    "flowers oranges lemons pencils towels spoons forks hats socks batteries cakes cookies sandwiches balls carrots "
    "onions notebooks posters pillows cables screws bricks stamps tables"
).split()

THINGS = (
    "lamp chair table desk phone bag watch bottle cup jacket bike radio camera clock mirror sofa pillow knife pan "
    "kettle laptop keyboard mouse tent backpack umbrella hat scarf shirt coat fan heater shelf"
).split()

COLORS = "red blue green yellow orange purple pink black white brown gray".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()

EVENTS = (
    "team meeting,birthday party,concert,yoga class,dinner,staff meeting,football match,art show,book club,school trip,"
    "music lesson,dance class,job interview,wedding,picnic,movie night,garden party,chess club,cooking class,lunch,"
    "board meeting,science fair,swimming lesson,street market,game night,parents evening,fire drill,city run"
).split(",")

BOOK_FIRST = "The Silent,The Last,The Old,The Red,My Little,A Long,The Lost,The Secret,Our First,The Blue,A Cold".split(
    ","
)
BOOK_LAST = "Garden,River,House,Road,Winter,Island,Forest,Letter,Summer,Mountain,Door,Night,Song,King,Ship,Star".split(
    ","
)

MESSAGES = (
    "see you at noon,call me later,dinner is ready,the train is late,I am at home,happy birthday,good luck,"
    "bring some milk,the meeting is over,I will be late,please wait for me,thank you for the gift,"
    "the key is under the mat,we won the game,are you coming,I found your bag,the door is open,lunch at one,"
    "the package is here,I miss you,do not forget the tickets,the report is done,"
    "let us meet tomorrow,my phone is broken,where are you,the car is ready"
).split(",")

KEYS_OF: dict[str, tuple[str, ...]] = {
    "name": ("name", "name", "name", "name", "name", "person", "first_name"),
    "age": ("age", "age", "age", "age", "years"),
    "city": ("city", "city", "city", "city", "town", "home", "location"),
    "job": ("job", "job", "job", "job", "profession", "work"),
    "hobby": ("hobby", "hobby", "hobby", "interest", "likes"),
    "pet": ("pet", "pet", "pet", "animal"),
    "item": ("item", "item", "item", "product", "thing"),
    "count": ("count", "count", "quantity", "amount", "number"),
    "price": ("price", "price", "price", "cost"),
    "event": ("title", "title", "event"),
    "day": ("day", "day", "day", "date"),
    "time": ("time", "time", "time", "start"),
    "book": ("title", "title", "title", "book"),
    "author": ("author", "author", "author", "writer"),
    "year": ("year",),
    "pages": ("pages", "pages", "length"),
    "product": ("name", "name", "product", "item"),
    "color": ("color",),
    "stock": ("stock", "stock", "count"),
    "sender": ("from", "from", "from", "sender"),
    "receiver": ("to", "to", "to", "receiver"),
    "text": ("text", "text", "message"),
    "email": ("email", "email", "mail"),
}
"""What a request calls each fact; the first one is what an answer calls it when the request names no keys."""

PEOPLE_TRAIN: tuple[str, ...] = (
    "{name} is {age} years old.",
    "{name} is {age}.",
    "[My name is|I am] {name} and I am {age} years old.",
    "{name} is {age} years old and lives in {city}.",
    "{name} is {age} and comes from {city}.",
    "{name} lives in {city}.",
    "{name}, {age}, lives in {city}.",
    "{name} from {city} is {age} years old.",
    "{name} ({age}) [lives in|comes from|is from] {city}.",
    "{name} works as {a_job}.",
    "{name} is {a_job} [from|in] {city}.",
    "{name} is {a_job} and lives in {city}.",
    "{name} is {a_job}, is {age} years old and lives in {city}.",
    "{name}, {age}, works as {a_job} in {city}.",
    "{name} lives in {city}, is {age} years old and works as {a_job}.",
    "{name} likes {hobby}.",
    "{name} is {age} and [likes|loves] {hobby}.",
    "{name} lives in {city} and [likes|loves|enjoys] {hobby}.",
    "{name} is {a_job} who [likes|loves] {hobby}.",
    "{name} has {a_pet}.",
    "{name} has {a_pet} and likes {hobby}.",
    "{name} is {age} years old and has {a_pet}.",
    "{name} lives in {city} with {a_pet}.",
    "{name} works as {a_job} in {city}, likes {hobby} and has {a_pet}.",
    "{name} is {age} years old, lives in {city}, works as {a_job} and likes {hobby}.",
    "{name} from {city} is {age}, has {a_pet} and loves {hobby}.",
    "My friend {name} is {age} years old and lives in {city}.",
    "My [sister|brother|neighbor|cousin] {name} is {a_job} in {city}.",
    "I am {name}, {age} years old, from {city}.",
    "Hi, I am {name}. I live in {city} and I am {age} years old.",
    "My name is {name}. I am {a_job} and I like {hobby}.",
    "{name} was born in {city} and is now {age} years old.",
    "At the age of {age}, {name} moved to {city}.",
    "{name} is {age}. {name} works as {a_job}.",
    "In {city} lives {name}, who is {age} years old.",
    "{name} can be reached at {email}.",
    "{name} is {age} years old. The email is {email}.",
    "{name} ({email}) works as {a_job} in {city}.",
)
PEOPLE_HELD_OUT: tuple[str, ...] = (
    "{name} is {age} years old, comes from {city} and works as {a_job}.",
    "My cousin {name} lives in {city} and is {age}.",
    "I am {name}, I have {a_pet} and I love {hobby}.",
)

OTHERS_TRAIN: tuple[str, ...] = (
    "{name} ordered {count} {item}.",
    "{name} bought {count} {item} for [{price} dollars|${price}].",
    "I want to order {count} {item}.",
    "[Please send me|I need|I would like] {count} {item}.",
    "We bought {count} {item} for [{price} dollars|{price} euros].",
    "{count} {item} cost [{price} dollars|{price} euros].",
    "An order of {count} {item} [for {name}|from {city}].",
    "The order is {count} {item} at {price} dollars.",
    "{name} from {city} ordered {count} {item} for ${price}.",
    "{name} [needs|wants] {count} {item} in {city}.",
    "{count} {item} for {price} euros.",
    "{name} sold {count} {item} in {city}.",
    "{name} paid [{price} dollars|${price}] for {count} {item}.",
    "The {event} is on {day} at {time}.",
    "The {event} [starts|begins] at {time} on {day}.",
    "There is {a_event} on {day} at {time}.",
    "On {day} at {time} we have {a_event}.",
    "Come to the {event} on {day} at {time} in {city}.",
    "{name} has {a_event} on {day} at {time}.",
    "The {event} in {city} is on {day}.",
    "Do not miss the {event} on {day}.",
    "Our {event} was moved to {day} at {time}.",
    "The {event} costs {price} dollars and starts at {time}.",
    "{author} wrote {book} in {year}.",
    "{book} is a book by {author}.",
    "{book} by {author} has {pages} pages.",
    "{book} by {author} came out in {year} and has {pages} pages.",
    "I am reading {book} by {author}.",
    "The book {book} was written by {author} in {year}.",
    "{book} ({year}) by {author} costs {price} dollars.",
    "The book {book} has {pages} pages and costs ${price}.",
    "The {product} costs [{price} dollars|${price}|{price} euros].",
    "The {product} is {color} and costs [{price} dollars|${price}].",
    "We have {stock} of the {product} in stock for {price} dollars.",
    "The {product} is {color}. The price is {price} euros.",
    "You can buy the {product} for [${price}|{price} dollars].",
    "[I found|We sell|I want to sell] {a_color} {product} for {price} dollars.",
    "The price of the {product} is {price} dollars and there are {stock} left.",
    "{sender} wrote to {receiver}: {text}.",
    "{sender} told {receiver}: {text}.",
    "{sender} sent {receiver} a message: '{text}'",
    "{sender} said to {receiver}: '{text}'",
    "Message from {sender} to {receiver}: {text}.",
    "To {receiver}: {text}. From {sender}.",
    "{receiver} got a message from {sender}: {text}.",
    "From {sender} to {receiver}: {text}.",
)
OTHERS_HELD_OUT: tuple[str, ...] = (
    "I would like to buy {count} {item} for {price} dollars.",
    "{name} needs {count} {item}.",
    "We have {a_event} at {time} on {day}.",
    "{author} wrote the book {book}, which has {pages} pages.",
    "The {color} {product} costs {price} dollars.",
    "{sender} sent a message to {receiver}: {text}.",
)

ROWS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("name", "age"), ("{name} is {age}", "{name} is {age} years old", "{name} ({age})")),
    (("name", "age"), ("{name} is {age}", "{name} is {age} years old", "{name} {age}")),
    (("name", "city"), ("{name} lives in {city}", "{name} is from {city}", "{name} in {city}", "{name} ({city})")),
    (("name", "job"), ("{name} is {a_job}", "{name} works as {a_job}")),
    (("name", "pet"), ("{name} has {a_pet}",)),
    (("name", "hobby"), ("{name} likes {hobby}", "{name} loves {hobby}")),
    (("item", "price"), ("{item} for {price} dollars", "{item} cost {price} dollars", "{item} cost ${price}")),
    (("item", "count"), ("{count} {item}",)),
    (("event", "day"), ("{event} on {day}", "the {event} is on {day}")),
    (("name", "age", "city"), ("{name} is {age} and lives in {city}", "{name} from {city} is {age}")),
)
"""Facts of one thing of several, and ways to say them."""

SHAPES: tuple[tuple[dict[str, object], tuple[str, ...]], ...] = (
    (
        {"user": {"name": "name", "email": "email"}, "active": "yes"},
        ("{name} has the email {email} and is {not_}active.", "The user {name} ({email}) is {not_}active."),
    ),
    (
        {"user": {"name": "name", "age": "age"}, "city": "city"},
        ("{name} is {age} and lives in {city}.", "{name}, {age}, lives in {city}."),
    ),
    (
        {"order": {"item": "item", "count": "count"}, "paid": "yes"},
        ("The order of {count} {item} is {not_}paid.", "{count} {item}, {not_}paid."),
    ),
    (
        {"customer": "name", "order": {"item": "item", "count": "count", "price": "price"}},
        ("{name} ordered {count} {item} for {price} dollars.", "{name} bought {count} {item} for ${price}."),
    ),
    (
        {"name": "name", "address": {"street": "street", "city": "city"}},
        ("{name} lives in {street} in {city}.", "The address of {name} is {street}, {city}."),
    ),
    (
        {"person": {"name": "name", "job": "job"}, "pets": "pets"},
        ("{name} is {a_job} and has {pets_said}.", "{name} works as {a_job}. The pets are {pets_said}."),
    ),
    ({"name": "name", "pets": "pets"}, ("{name} has {pets_said}.", "The pets of {name} are {pets_said}.")),
    ({"name": "name", "hobbies": "hobbies"}, ("{name} likes {hobbies_said}.", "{name} loves {hobbies_said}.")),
    (
        {"team": "color", "players": "people"},
        ("In the {color} team are {people_said}.", "The players of the {color} team are {people_said}."),
    ),
    (
        {"event": {"title": "event", "day": "day"}, "guests": "people"},
        ("The {event} is on {day} with {people_said}.", "{people_said} come to the {event} on {day}."),
    ),
)
"""Nested answers, by what each place in them holds, and ways to say it."""

LISTS: dict[str, tuple[str, ...]] = {
    "colors": tuple(COLORS),
    "animals": tuple("dog cat horse cow bird fish lion tiger bear rabbit sheep pig duck goat mouse".split()),
    "fruits": tuple("apple banana orange pear grape lemon peach cherry mango melon plum kiwi".split()),
    "weekdays": tuple(DAYS[:5]),
    "days of the week": tuple(DAYS),
    "months": tuple(MONTHS),
    "shapes": ("circle", "square", "triangle", "rectangle", "star", "oval", "diamond", "heart", "line"),
    "foods": tuple("bread cheese rice pasta soup pizza salad egg meat fish cake potato".split()),
    "drinks": tuple("water milk tea coffee juice soda cocoa lemonade wine beer".split()),
    "vegetables": tuple("carrot potato onion tomato cabbage bean pepper corn pea spinach".split()),
    "countries": tuple("France Italy Spain Germany Japan Brazil Canada India China Egypt Mexico Norway Peru".split()),
    "cities": tuple("Paris Rome Madrid Berlin Tokyo London Cairo Oslo Lima Athens".split()),
    "names": tuple("Anna Ben Clara David Emma Felix Greta Hugo".split()),
    "jobs": tuple("teacher doctor baker driver nurse farmer cook painter pilot".split()),
    "sports": tuple("football tennis swimming running basketball cycling skiing hockey".split()),
    "tools": tuple("hammer saw drill knife screwdriver axe shovel rake wrench".split()),
}
"""An answer begins at the first word, so that a small model keeps count; others of them are as right."""

WORDS_IN: dict[str, tuple[str, ...]] = {
    "animal": tuple(
        "dog cat horse cow bird lion tiger bear rabbit sheep pig goat mouse frog snake wolf fox owl".split()
    ),
    "food": tuple(
        "apple banana bread cheese rice pasta soup pizza salad egg cake potato carrot pear honey butter".split()
    ),
    "color": tuple("red blue green yellow purple pink black white brown gray".split()),
    "tool": tuple("hammer saw drill screwdriver axe shovel rake wrench ladder brush".split()),
    "place": tuple("city school park beach hospital museum library farm airport hotel village station island".split()),
}

TRUE_QUESTIONS = (
    "Is fire hot?;Is ice cold?;Is the sky blue?;Is snow white?;Is grass green?;Is sugar sweet?;Is a lemon sour?;"
    "Can birds fly?;Can fish swim?;Is water wet?;Is the sun hot?;Does a week have seven days?;"
    "Is a horse bigger than a mouse?;Do dogs bark?;Do cows give milk?;Is a rose a flower?;Is Paris in France?;"
    "Is Rome in Italy?;Is blood red?;Do birds have wings?;Does a car have wheels?;Is a baby young?;"
    "Does a year have twelve months?;Is the earth round?"
).split(";")
FALSE_QUESTIONS = (
    "Is fire cold?;Is ice hot?;Is the sky green?;Is snow black?;Is grass red?;Is sugar sour?;Can a stone swim?;"
    "Can pigs fly?;Can a table walk?;Is water dry?;Is the sun cold?;Does a week have nine days?;"
    "Is a mouse bigger than a horse?;Do cats bark?;Do fish have legs?;Is a rose an animal?;Is Paris in Italy?;"
    "Is Rome in France?;Is milk black?;Does a dog have wings?;Can a fish read?;Is a baby old?;"
    "Does a year have ten months?;Is the earth flat?"
).split(";")

LIKED = (
    "this book,this movie,the food,my new phone,this song,the hotel,this game,the service,my new job,this place,"
    "the show,the soup,the trip,this shop,the concert,my new bike,this city,the party,the coffee,"
    "the music,the room"
).split(",")
POSITIVE = "great wonderful amazing lovely perfect excellent fantastic beautiful good nice super brilliant".split()
NEGATIVE = "terrible awful bad horrible boring ugly sad disgusting poor annoying useless".split()
GOOD_DAYS = "great wonderful amazing good fantastic super".split()
BAD_DAYS = "terrible horrible bad sad awful".split()
OPINIONS: dict[str, tuple[str, ...]] = {
    "positive": (
        "I [really |]love {it}[.|!]",
        "I [really |]like {it}[.|!]",
        "I [really |]enjoyed {it}[.|!]",
        "I am [so |very |]happy with {it}[.|!]",
        "{It} is [so |very |really |]{good}[.|!]",
        "{It} was [so |very |really |]{good}[.|!]",
        "{It} made me [so |very |]happy[.|!]",
        "What {good} day[.|!]",
        "I feel {good} today[.|!]",
        "{It} is the best ever[.|!]",
        "I would choose {it} again[.|!]",
    ),
    "negative": (
        "I [really |]hate {it}[.|!]",
        "I [do not|don't] like {it}[ at all|].",
        "I did not enjoy {it}[ at all|].",
        "I am [so |very |][angry about|sad about] {it}.",
        "I am not happy with {it}.",
        "{It} is [so |very |really |]{bad}[.|!]",
        "{It} was [so |very |really |]{bad}[.|!]",
        "{It} made me [so |very |][angry|sad][.|!]",
        "What {bad} day[.|!]",
        "I feel {bad} today[.|!]",
        "{It} is the worst ever[.|!]",
        "I would never choose {it} again[.|!]",
        "{It} is not {good}.",
    ),
}

GREETINGS: tuple[tuple[str, str], ...] = (
    ("[Hi|Hello|Hey|Hi there|Hello there|Good morning|Good evening]", "Hello! How can I help you?"),
    ("How are you[| today]?", "I am fine, thank you."),
    ("[Thanks|Thank you|Thank you very much|Thanks a lot]", "You are welcome!"),
    ("[Bye|Goodbye|See you|Good night]", "Goodbye!"),
    ("What can you do?", "I can chat, answer small questions and write JSON."),
    ("[Can you help me?|I need help.|Help me.]", "Yes, I can help. What do you need?"),
)
SMALL_QUESTIONS: tuple[tuple[str, str], ...] = (
    ("[What color is the sky?|What is the color of the sky?]", "blue"),
    ("[What color is snow?|What is the color of snow?]", "white"),
    ("[What color is grass?|What is the color of grass?]", "green"),
    ("[What color is a banana?|What is the color of a banana?]", "yellow"),
    ("[What is the capital of France?|Capital of France?]", "Paris"),
    ("[What is the capital of Italy?|Capital of Italy?]", "Rome"),
    ("[What is the capital of Spain?|Capital of Spain?]", "Madrid"),
    ("[What is the capital of Germany?|Capital of Germany?]", "Berlin"),
    ("[What is the capital of Japan?|Capital of Japan?]", "Tokyo"),
    ("[What is the capital of England?|Capital of England?]", "London"),
    ("[Which animal barks?|What animal barks?]", "dog"),
    ("[Which animal gives milk?|What animal gives us milk?]", "cow"),
    ("[Which day comes after Monday?|What day is after Monday?]", "Tuesday"),
    ("[Which day comes after Friday?|What day is after Friday?]", "Saturday"),
    ("[Which month comes after May?|What month is after May?]", "June"),
    ("[What is the first month of the year?|Which month is the first?]", "January"),
    ("[What do bees make?|What do we get from bees?]", "honey"),
    ("[What is frozen water called?|What is frozen water?]", "ice"),
    ("[What is the opposite of hot?|The opposite of hot?]", "cold"),
    ("[What is the opposite of big?|The opposite of big?]", "small"),
    ("[What is the opposite of up?|The opposite of up?]", "down"),
)

"""Tools of everyday life, and how people ask for them: weather, clocks, the house, and what to buy."""

from __future__ import annotations

from . import tool_fillers as fill
from .tool_concept import Concept, Param

_ROOMS = fill.one_of(
    *"kitchen bedroom bathroom hall garage office garden cellar".split(),
    *("living room", "dining room", "guest room", "entrance", "play room", "attic", "hallway", "library"),
)
_ITEMS = fill.one_of(
    *"""milk bread eggs butter cheese apples bananas tomatoes potatoes onions carrots rice pasta coffee tea sugar salt
flour oil soap paper pens batteries candles flowers cookies grapes lemons beans nuts honey yogurt water""".split(),
    *("olive oil", "orange juice", "green tea", "dog food", "white bread", "red wine", "ice cream", "paper towels"),
)

HOME = (
    Concept(
        key="weather",
        names="get_weather weather current_weather weather_now lookup_weather weather_report forecast",
        descriptions="Get the weather in a city|Current weather for a place|Tells the weather|Weather report",
        params=(
            Param("city location place town", fill.city, "the city|name of the city|where"),
            Param(
                "unit units scale",
                fill.one_of("celsius", "fahrenheit"),
                "unit of the temperature",
                enum=("celsius", "fahrenheit"),
                optional=True,
            ),
            Param("day date when", fill.one_of("today", "tomorrow", *fill.DAYS), "the day|which day", optional=True),
        ),
        train="""[What is|What's|How is|How's] the weather in {city}[| now| right now| today]?
[What is|What's|How is] the weather like in {city}?
What is the weather in {city} in {unit}?
[Weather|Weather in|The weather in|Current weather in|Forecast for] {city}
{city} weather
Weather in {city} in {unit}
Weather in {city} {day}
What will the weather be in {city} {day}?
How will the weather be {day} in {city}?
[Is it|Is it going to be|Will it be] [warm|cold|sunny|hot|rainy|windy] in {city}[| {day}]?
[Does it rain|Is it raining|Is it snowing] in {city}?
Will it [rain|snow] in {city} {day}?
[How warm|How cold|How hot] is it in {city}[| now]?
[What is|What's|Tell me] the temperature in {city}[| in {unit}]?
How many degrees is it in {city}?
Do I need [an umbrella|a coat|a hat] in {city}[| {day}]?
tell me the weather [in|for] {city}[| {day}]
[check|show me|get|look up] the weather [in|for] {city}[| in {unit}]
I am going to {city}. How is the weather there?
I [want|need] to know the weather in {city}
find out if [rain|snow|wind|a storm] is coming to {city}[| {day}]
I wonder [if it is cold|if it rains|how the weather is] in {city}[| {day}]
I [travel|fly|drive] to {city} {day}. [What should I wear|Will I get wet]?
Should I [take a jacket|wear boots|bring sunglasses] in {city}[| {day}]?
Any [rain|snow|clouds|sunshine] expected in {city}[| {day}]?
We [want|plan] to have a picnic in {city} {day}. Will it stay dry?
let me know the temperature in {city}[| in {unit}]
My [mother|friend|brother] lives in {city}. Is it [freezing|stormy|foggy] there?
{city} {day}: [sun or rain|warm or cold|wet or dry]?
Temperature for {city}, in {unit} please
give me the forecast for {city}[| {day}]""",
        held_out="""What weather [do they have|is there] in {city}?
get me the weather report for {city}
[Is the weather good|Is the weather nice|Is it nice weather] in {city}?
[Do you know|Can you tell me] how warm it is in {city}?""",
        follow="{city}|in {city}|the weather in {city}|{day}",
        answers="In {city} it is {temperature} degrees.|In {city} it is {temperature} degrees and {condition}.|"
        "The weather in {city} for {day}: {temperature} degrees.|"
        "The weather in {city} for {day}: {temperature} degrees and {condition}.",
        result={
            "temperature temp degrees": fill.number(-15, 40),
            "condition sky weather": fill.one_of(*"sunny rainy cloudy windy foggy clear snowy stormy dry".split()),
        },
        errors="city not found|unknown city|unknown place|no data for this city",
    ),
    Concept(
        key="time",
        names="get_time time_in current_time world_clock clock local_time lookup_time",
        descriptions="Get the time in a city|Current local time of a place|Tells what time it is|World clock",
        params=(Param("city location place town", fill.city, "the city|name of the city|where"),),
        train="""What time is it in {city}[| now| right now| at the moment]?
[What is|What's] the [time|local time|current time] in {city}?
[Time|The time|Time now|Current time|Local time] in {city}
{city} time
[tell me|give me|check|show me|look up] the [time|current time|local time] in {city}
tell me what time it is in {city}
How late is it in {city}?
[In {city}, what time is it|What time is it for people in {city}, do they sleep]?
Is it [late|early|night|morning] in {city}[| now]?
Is it [day or night|morning or evening] in {city}?
What does the clock say in {city}?
What hour is it in {city}[| now]?
I [need|want] to know the time in {city}
I [want|have] to call a friend in {city}. What time is it there?
Do you know [the time|what time it is] in {city}?
I wonder what time it is [|over there ]in {city}
Are people in {city} [still asleep|already awake|at work now]?
My [sister|boss|uncle] lives in {city}. Is it too late to call?
help me find out the [hour|local time] in {city}
[Clock|Hour|World clock]: {city}
Is it past [noon|midnight|six] in {city}[| already]?
I have a [call|meeting] with people in {city} and need their [|local ]time
let me know what the [clock|watch] shows in {city}
I have to set my watch to {city} time
The hour in {city}, please
[What time|What's the time], {city}""",
        held_out="""[What time do they have|Which time is it] in {city}?
How late is it now in {city}?
get the time for {city}
I am in {city}. What is the time here?""",
        follow="{city}|in {city}|the time in {city}",
        answers="It is {time} in {city}.|The time in {city} is {time}.",
        result={"time local_time clock": fill.clock},
        errors="city not found|unknown city|unknown place",
    ),
    Concept(
        key="timer",
        names="set_timer start_timer timer countdown new_timer kitchen_timer",
        descriptions="Set a timer|Start a timer of some minutes|Counts down and rings|Kitchen timer",
        params=(Param("minutes duration mins length", fill.number(2, 120), "how many minutes", type="integer"),),
        train="""[set|start|make|create] a timer [for|of] {minutes} minutes
[set|start|make] a {minutes} minute timer
[set|start] the timer [for|to] {minutes} minutes
Timer[| for|:] {minutes} minutes
{minutes} minute timer
{minutes} minutes timer
{minutes} minutes on the timer
put {minutes} minutes on the timer
[count down|start a countdown of|start counting down] {minutes} minutes
tell me when {minutes} minutes are over
[ring|beep] [in|after] {minutes} minutes
I need a timer [for|of] {minutes} minutes
I need a {minutes} minute timer
My [eggs|cake|pasta|rice|soup] [needs|takes] {minutes} minutes. Set a timer
I am cooking [eggs|rice|pasta], so set a timer for {minutes} minutes
let me know [when|once] {minutes} minutes [have passed|are up|are gone]
give me a [sign|signal|beep] after {minutes} minutes
The [tea|bread|chicken|fish] has to [cook|rest|stay hot] for {minutes} minutes. Watch the time
I have only {minutes} minutes. [Tell me when they are over|Beep when time is up]
watch the clock for {minutes} minutes[| for me]
I want to [rest|nap|read|train|study] for {minutes} minutes, [so time me|and then you beep]
make sure I stop [after|in] {minutes} minutes
Kitchen timer, {minutes} minutes, please
help me [wait|time] {minutes} minutes
time {minutes} minutes[| for me]""",
        held_out="""[let the timer run|run a timer] for {minutes} minutes
I want a {minutes} minute countdown
The timer should ring in {minutes} minutes""",
        follow="{minutes} minutes|one for {minutes} minutes|a timer for {minutes} minutes",
        answers="The timer is set for {minutes} minutes.|I set a timer for {minutes} minutes.",
        errors="too many timers|timer is broken|too long",
    ),
    Concept(
        key="alarm",
        names="set_alarm alarm wake_up new_alarm alarm_clock add_alarm",
        descriptions="Set an alarm|Set the alarm clock|Wakes the user at a time|Alarm at a time of day",
        params=(Param("time at when hour", fill.clock, "the time|when to ring|time of day"),),
        train="""[set|make|create|add] an alarm [for|at] {time}
[set|put] [the|my] alarm [to|for|at] {time}
set [the|my] alarm clock [to|for] {time}
wake me[| up] at {time}
[Alarm|Alarm at|Alarm for|New alarm:] {time}
{time} alarm
I need an alarm [at|for] {time}
I [have to|must|want to|need to] [get up|wake up] at {time}. Set an alarm
I want to be woken[| up] at {time}
let the alarm ring at {time}
ring the alarm at {time}
I need to be [up|out of bed] at {time}, so set an alarm
Do not let me sleep after {time}
[Wake up|Get up] at {time}
get me up at {time}
I must be awake [at|by] {time}
My day [starts|begins] at {time}. [Wake me then|Do not let me oversleep]
help me [wake up|get up] at {time}
let me sleep until {time}[| and then wake me]
I cannot sleep longer than {time}. [Set the alarm|Wake me]
[beep|make a noise] at {time}[| so that I wake up| to wake me]
I [would like|want] to sleep [until|till] {time}
Tomorrow I [rise|have to rise|start my day] at {time}, so I need an alarm
Alarm clock to {time}, please
I wonder if you can wake me at {time}
make sure I wake up at {time}""",
        held_out="""The alarm should ring at {time}
get me out of bed at {time}
I need [the|my] alarm clock to ring at {time}""",
        follow="at {time}|{time}|one at {time}|an alarm at {time}",
        answers="The alarm is set for {time}.|I set an alarm for {time}.",
        errors="bad time|too many alarms|alarm is broken",
    ),
    Concept(
        key="reminder",
        names="add_reminder set_reminder remind reminder create_reminder remind_me",
        descriptions="Remind the user of a task|Create a reminder|Set a reminder at a time",
        params=(
            Param("text task what title", fill.text(fill.TASKS), "the task|what to remind of"),
            Param("time at when", fill.clock, "the time|when to remind", optional=True),
        ),
        train="""remind me to {text}
remind me at {time} to {text}
remind me to {text} at {time}
[set|add|make|create] a reminder to {text}[| at {time}]
[set|add|make|create] a reminder at {time} to {text}
[set|add] a reminder for {time}: {text}
[Reminder|New reminder|Remind me]: {text}
[Reminder|New reminder|Remind me] at {time}: {text}
At {time}, remind me to {text}
I [have to|must|need to] {text} at {time}. Remind me
I [have to|must|need to] {text}. Remind me
Do not let me forget to {text}
make sure that I do not forget to {text}
I want to be reminded to {text}
I want a reminder at {time} to {text}
tell me at {time} that I [have to|must|should] {text}
make sure I {text} at {time}
I [always|often] forget to {text}. A reminder would help
let me know at {time} that it is time to {text}
keep in mind that I [have to|must] {text}
My plan for {time}: {text}. Remind me of that
It is important that I {text}. Remind me [of it|later]
ping me at {time} to {text}
I hope I remember to {text}. Send me a reminder
I need a reminder to {text}""",
        held_out="""help me to not forget to {text}
give me a reminder at {time} to {text}
I do not want to forget to {text}. Set a reminder
I want to be reminded at {time} to {text}""",
        follow="remind me to {text}|remind me at {time} to {text}",
        carries=False,
        answers="I will remind you to {text}.|I will remind you at {time} to {text}.",
        errors="bad time|too many reminders|text is too long",
    ),
    Concept(
        key="light",
        names="set_light light switch_light lights light_control toggle_light",
        descriptions="Turn a light on or off|Control the light in a room|Switches lights",
        params=(
            Param("room place location", fill.or_made_up(_ROOMS, 0.2), "the room|which room"),
            Param("state power action", fill.one_of("on", "off"), "on or off", enum=("on", "off")),
        ),
        train="""[turn|switch] {state} the light in the {room}
[turn|switch] {state} the [light|lights|lamp] in the {room}
[turn|switch] the {room} [light|lights|lamp] {state}
[turn|switch] {state} the {room} [light|lights|lamp]
[turn|switch] the [light|lights|lamp] {state} in the {room}
[turn|switch] the [light|lights] in the {room} {state}
{room} [light|lights] {state}
[Light|Lights] {state} in the {room}
[Light|Lights] in the {room} {state}
In the {room}, turn the light {state}
set the {room} light to {state}
set the light in the {room} to {state}
I want the light in the {room} {state}
I want the {room} lights {state}
The light in the {room} should be {state}
I am [in|leaving] the {room}. Turn the light {state}
keep the [lamps|lights] of the {room} {state}
[make sure|check] that all {room} lamps are {state}
I [want|would like] to have the lamp {state} in the {room}
flip the [light switch|switch] in the {room} to {state}
Lamp {state}, {room}, please
I forgot the light in the {room}. It should be {state}
The lamp in the {room} [must|has to|needs to] be {state}
I prefer the {room} with the [light|lamp] {state}
set every lamp in the {room} to {state}
put the {room} light {state}""",
        held_out="""I need the {room} lights {state}
make the light in the {room} go {state}
The {room}: lights {state}""",
        follow="the {room}|in the {room}|turn it {state}|the light in the {room}",
        answers="The light in the {room} is now {state}.",
        errors="room not found|lamp is broken|light does not answer",
    ),
    Concept(
        key="thermostat",
        names="set_temperature thermostat heating set_thermostat set_heating room_temperature",
        descriptions="Set the heating|Set the temperature at home|Control the thermostat",
        params=(Param("temperature degrees temp target", fill.amount(14, 28), "degrees|how warm", type="number"),),
        train="""set the [heating|temperature|thermostat] to {temperature} degrees
set the [heating|temperature|thermostat] to {temperature}
[turn|put] the [heating|thermostat|heat] to {temperature} degrees
[turn|put] the [heating|thermostat|heat] [up|down] to {temperature}
make it {temperature} degrees [here|in here|at home|in the house]
[heat|warm|cool] the [house|room|flat] to {temperature} degrees
[Heating|Thermostat|Temperature] [to|at] {temperature}
[Heating|Thermostat|Temperature]: {temperature} degrees
{temperature} degrees [at home|in here], please
I want [it to be|it] {temperature} degrees [here|at home|in here]
I am cold. Set the heating to {temperature}
I am too warm. Set the temperature to {temperature} degrees
keep the [house|room] at {temperature} degrees
change the [temperature|thermostat] to {temperature} degrees
The [room|house] should have {temperature} degrees
I feel [best|good|fine] at {temperature} degrees. Change the heating
let the [heater|thermostat|heating] [run|stay] at {temperature} degrees
make sure [it is|we have] {temperature} degrees [at home|in all rooms]
[raise|lower] the heat until we have {temperature} degrees
The baby sleeps here, so we need {temperature} degrees
adjust the [heater|radiator|thermostat] to {temperature}
Could we have {temperature} degrees [in the flat|in this room|tonight]?
Our home at {temperature} degrees, please
choose {temperature} degrees for the [heater|flat|thermostat]
We like it at {temperature} degrees
It is [cold|too warm] in here. Make it {temperature} degrees""",
        held_out="""I want {temperature} degrees in the house
get the room to {temperature} degrees
put the temperature at home at {temperature}""",
        follow="{temperature}|to {temperature}|{temperature} degrees|to {temperature} degrees",
        answers="The heating is set to {temperature} degrees.",
        errors="too warm|thermostat is off|heating is broken",
    ),
    Concept(
        key="shopping",
        names="add_to_list shopping_list add_item add_shopping_item buy_list groceries",
        descriptions="Add to the shopping list|Put an item on the shopping list|Shopping list",
        params=(
            Param("item product name thing", fill.or_made_up(_ITEMS, 0.3), "what to buy|the item"),
            Param("quantity count number amount", fill.number(2, 24), "how many", type="integer", optional=True),
        ),
        train="""[add|put] {item} [to|on] [the|my] shopping list
[add|put] {item} [to|on] [the|my] list
[add|put] {quantity} {item} [to|on] [the|my] shopping list
[add|put] {quantity} {item} [to|on] the list
[Shopping list|Shopping|To buy|Groceries]: {item}
[Shopping list|Shopping|To buy|Groceries]: {quantity} {item}
{item} on the shopping list
{quantity} {item} on the shopping list
We [need|need more|have no|have no more] {item}. Add it to the shopping list
I need {quantity} {item}, so put them on the shopping list
I [need|want] to buy {item}. Add it to the list
I [need|want] to buy {quantity} {item}. Add that to the list
write {item} on [the|my] shopping list
write {quantity} {item} on [the|my] shopping list
My shopping list needs {item}
[The shopping list|My list] should have {quantity} {item}
We [ran out of|are out of|used up all the] {item}. Put it on the list
There is no {item} [left|at home|in the fridge]. Write it on the list
Next time at the [shop|store|supermarket] I [have to|must] get {item}
I am going to the [shop|store|market] and have to get {quantity} {item}
include [{item}|{quantity} {item}] in our [groceries|next shopping]
extend my shopping list with [{item}|{quantity} {item}]
{quantity} {item} for the shopping list, please
Could the shopping list get {quantity} more {item}?
Mom wants {quantity} {item} from the store, so list them
get {item} on the list""",
        held_out="""I want {item} on my shopping list
[We need|I need] {quantity} {item} on the list
make sure {item} is on the shopping list""",
        follow="{item}|{quantity} {item}",
        carries=False,
        answers="I added {item} to the shopping list.|I added {quantity} {item} to the shopping list.",
        errors="list is full|item not found|list is locked",
    ),
    Concept(
        key="dice",
        names="roll_dice dice roll throw_dice dice_roll random_dice",
        descriptions="Roll a dice|Throws a dice|Dice with a number of sides",
        params=(Param("sides faces size", fill.number(6, 100), "number of sides", type="integer", optional=True),),
        train="""[roll|throw] [a|the] dice
[roll|throw] [a|the] dice with {sides} sides
[roll|throw] a {sides} sided dice
[roll|throw] a {sides}-sided dice
[Dice|Roll|Dice roll]
Dice with {sides} sides
{sides} sided dice
[Roll|Dice]: {sides} sides
I need a dice roll
I need a dice with {sides} sides
I want to [roll|throw] a dice
I want to [roll|throw] a dice with {sides} sides
let us [roll|throw] a dice with {sides} sides
use a dice with {sides} sides
[My turn|We play a game]. Roll the dice
give me a dice roll with {sides} sides
[I wonder|Let us see] what [number|score] the dice [shows|gives me]
let the dice [fall|roll|decide]
let a dice with {sides} sides [decide|fall]
I want a random number from a dice with {sides} sides
It is my turn to [roll|throw][| the dice]
We are playing and [need|want] a [roll|throw]
{sides} sides, one [roll|throw], please
make a [roll|throw] with a {sides}-sided dice
drop a dice[| on the table]
What does a dice with {sides} sides [show|give]?
We need {sides} sides. Roll the dice""",
        held_out="""I need a roll of a dice with {sides} sides
throw the {sides} sided dice for me
My dice has {sides} sides. Throw it""",
        follow="with {sides} sides|one with {sides} sides|a dice with {sides} sides",
        answers="The dice shows {result}.",
        result={"result number value": fill.number(1, 6)},
        errors="too many sides|dice is lost",
    ),
)

"""Tools for texts and programs, and how people ask for them: messages, notes, music, files, the web."""

from __future__ import annotations

from . import tool_fillers as fill
from .name_lists import person
from .tool_concept import Concept, Param

_LANGUAGES = """French Spanish German Italian Polish Greek Turkish Arabic Hindi Chinese Japanese Korean Dutch Swedish
Russian Latin Finnish Danish Portuguese Czech""".split()

TEXTS = (
    Concept(
        key="message",
        names="send_message message text_message send_text send_sms write_message",
        descriptions="Send a message to a person|Send a text message|Writes a short message to somebody",
        params=(
            Param("to recipient person contact name", person, "who gets it|the person"),
            Param("text message body content", fill.text(fill.MESSAGES), "the text|what to say"),
        ),
        train="""[tell|text|write|message] {to} that {text}
[tell|text|write|message] {to}: {text}
send {to} a message: {text}
send {to} the message "{text}"
send a [message|text] to {to}: {text}
send a message to {to} saying {text}
send a message to {to} that {text}
send a [message|text] to {to} and say "{text}"
send "{text}" to {to}
[Text|Message] to {to}: {text}
let {to} know that {text}
[say|write] "{text}" to {to}
write a message to {to}: "{text}"
write to {to} that {text}
I want to [tell|text] {to} that {text}
I want to send {to} a message: {text}
inform {to} that {text}
make sure {to} [knows|hears|learns] that {text}
{to} [should|must|has to] know that {text}
help me tell {to} that {text}
pass this on to {to}: "{text}"
{to} needs a [message|text] from me: "{text}"
drop {to} a line: {text}
{to} is waiting for [news|an answer]. [Say|Write|Reply] that {text}
reply to {to} with "{text}"
I would like {to} to [read|hear|know] this: {text}
For {to}: "{text}"
[Message|Text] {to} "{text}\"""",
        held_out="""give {to} this message: {text}
I have a message for {to}: {text}
write {to} a text saying "{text}\"""",
        follow="{to}|to {to}|for {to}",
        answers="I sent the message to {to}.|The message to {to} is sent.",
        errors="person not found|no such contact|message too long",
    ),
    Concept(
        key="email",
        names="send_email email write_email mail send_mail new_email",
        descriptions="Send an email|Write an email to an address|Sends mail with a subject",
        params=(
            Param("to address recipient email", fill.address, "the address|who gets it"),
            Param("subject title topic", fill.text(fill.SUBJECTS), "the subject|what it is about"),
        ),
        train="""send an email to {to} with the subject {subject}
send an email to {to} about "{subject}"
send {to} an email with the subject "{subject}"
send {to} an email about "{subject}"
write an email to {to} with the subject {subject}
[write|send] {to} an email, subject {subject}
email {to} with the subject {subject}
email {to} about "{subject}"
mail {to} about "{subject}"
[Email|Mail|New email] to {to}, subject: {subject}
Email to {to}: {subject}
Subject {subject}, email to {to}
I [want|need|have] to send an email to {to} with the subject {subject}
I [want|need] to email {to} about "{subject}"
[start|open|create] an email to {to} with the title {subject}
send a mail called {subject} to {to}
compose [an email|a mail] for {to} about "{subject}"
{to} should get [an email|a mail] about "{subject}"
help me [email|mail] {to} about "{subject}"
make sure {to} gets a mail [called|titled] "{subject}"
I [must|would like to] contact {to} by email about "{subject}"
let {to} know about "{subject}" by [email|mail]
Mail for {to}. Subject line: {subject}
use "{subject}" as the subject of a mail to {to}
I have to inform {to} about "{subject}". [Send|Write] an email
The email goes to {to} and is [called|titled|named] {subject}
[An email|A mail] about "{subject}" to {to}, please
send a mail with the subject {subject} to {to}""",
        held_out="""create an email with the subject {subject} for {to}
I need an email to {to}, and the subject is {subject}
I want to write to {to}, with the subject {subject}""",
        follow="to {to}|{to}|one to {to}",
        answers="I sent the email to {to}.|The email to {to} is sent.",
        errors="bad address|mailbox is full|mail server is down",
    ),
    Concept(
        key="music",
        names="play_music play_song play music music_player start_song",
        descriptions="Play music|Play a song or an artist|Starts a song|Music player",
        params=(Param("song title track query", fill.song, "song or artist|what to play|the song"),),
        train="""play {song}
play the song {song}
play {song} [for me|now]
play me {song}
play something by {song}
[play|start] {song} now
put on {song}
[start|begin] playing {song}
start the song {song}
I [want|would like] to [hear|listen to] {song}
I would like to hear {song}
let me hear {song}
let us listen to {song}
[Music|Song|Play music]: {song}
{song}, please
I love {song}. Play it
[turn on|switch on] {song}
I am in the mood for {song}
Do you have {song}? Please play it
I need some {song} [right now|now|to relax]
make the speaker play {song}
We want to dance to {song}
[stream|choose|pick|queue] {song}[| for us]
Some {song}, please
find {song} and [play|start] it
The next song should be {song}
It would be nice to hear {song}
help me relax with {song}
[Can|Could] I hear {song}?""",
        held_out="""let us hear {song}
I want you to put {song} on
Can I listen to {song} now?""",
        follow="{song}|play {song}",
        answers="Now playing {song}.|I am playing {song}.",
        errors="song not found|no speaker|player is off",
    ),
    Concept(
        key="translate",
        names="translate translate_text translator translation to_language",
        descriptions="Translate a text|Say a text in another language|Translates words",
        params=(
            Param("text phrase sentence words", fill.text(fill.PHRASES), "the text|what to translate"),
            Param("language to target target_language", fill.one_of(*_LANGUAGES), "the language|which language"),
        ),
        train="""[translate|put] "{text}" [to|into] {language}
translate {text} [to|into] {language}
translate to {language}: {text}
How do you say "{text}" in {language}?
How do I say "{text}" in {language}?
How does one say "{text}" in {language}?
What is "{text}" in {language}?
What's "{text}" in {language}?
"{text}" in {language}
{language} for "{text}"
say "{text}" in {language}
[tell me|show me] how to say "{text}" in {language}
I want to say "{text}" in {language}
I need "{text}" in {language}
What is the {language} [translation of|for] "{text}"?
give me the {language} [translation of|for] "{text}"
What would "{text}" be in {language}?
Do you know the {language} words for "{text}"?
I wonder how "{text}" sounds in {language}
My friend speaks [|only ]{language}. How can I tell him "{text}"?
help me say "{text}" to [someone|a friend] who speaks {language}
I have to [write|tell them] "{text}" in {language}
make a {language} sentence out of "{text}"
"{text}" - {language}, please
Translation into {language}: {text}
switch this sentence to {language}: {text}
teach me how "{text}" is said in {language}
[write|turn] "{text}" [in|into] {language}""",
        held_out="""What do you say in {language} for "{text}"?
I need a {language} translation of "{text}"
get me "{text}" in {language}""",
        follow='in {language}|{language}|to {language}|"{text}"',
        answers='In {language} it is "{translation}".',
        result={"translation text result": fill.foreign},
        errors="unknown language|text is too long|language not found",
    ),
    Concept(
        key="note",
        names="create_note new_note add_note note make_note write_note",
        descriptions="Create a note|Make a new note with a title|Starts an empty note",
        params=(Param("title name heading", fill.text(fill.SUBJECTS), "the title|name of the note"),),
        train="""[create|make|start|add|write|open] a [|new ]note [called|named|with the title] {title}
[create|make|start|write] a note with the name "{title}"
[New note|Note|Create note|Make a note]: {title}
[New note|Note] with the title {title}
[New note|Note] "{title}"
I [need|want] a [|new ]note [called|named|with the title] {title}
make me a [|new ]note called {title}
take a note with the title {title}
[start|begin] a note and call it {title}
I need a note. Its name is {title}
[create|make] a note and name it "{title}"
I want to write a note [called|named] "{title}"
I want to take a note. The title is {title}
add {title} as a new note
The title of my new note is {title}
begin [a fresh|an empty|a blank] note under the [name|heading] {title}
I have to write something down under "{title}"
let me [start|have|begin] a note titled "{title}"
help me [set up|begin] a note for "{title}"
save a note as {title}
A [fresh|blank] note, please: {title}
There should be a note called "{title}"
I would like to keep notes under the title "{title}"
make sure there is a note named {title}
{title}: make that a [|new ]note
My notes need one [called|titled] "{title}"
[Title of the note|Note title]: {title}""",
        held_out="""I want a note, and its title is {title}
get me a new note named {title}
write me a note with the title "{title}\"""",
        follow='one called {title}|a note called {title}|"{title}"',
        answers='I made the note "{title}".',
        errors="title is too long|too many notes|notes are locked",
    ),
    Concept(
        key="event",
        names="add_event create_event calendar calendar_event new_event schedule",
        descriptions="Add an event to the calendar|Create a calendar event|Puts something in the calendar",
        params=(
            Param("title name event", fill.text(fill.SUBJECTS.replace("on {day}|", "")), "the title|what it is"),
            Param("day date when", fill.date, "the day|which day"),
        ),
        train="""[add|put] {title} [to|in] [the|my] calendar [on|for] {day}
[add|put] "{title}" [to|in] [the|my] calendar on {day}
[create|make|add] an event called {title} on {day}
[create|make|add] an event on {day} called {title}
[create|make|add] a calendar event for {day}: {title}
[create|make|add] the event "{title}" on {day}
On {day}: {title}. Add it to my calendar
[schedule|plan] {title} for {day}
[schedule|plan] "{title}" on {day}
[Calendar|Event|New event|Calendar event]: {title} on {day}
[Calendar|Event|New event] on {day}: {title}
write {title} in my calendar for {day}
{title} on {day}, put it in my calendar
I want {title} in my calendar on {day}
I have an event on {day}. It is called {title}
{title} [is|happens|takes place] on {day}. [Save it|Put it in my calendar|Note the date]
mark {day} [for|with] "{title}"
make sure my calendar [shows|has] {title} on {day}
[save|block|keep] {day} for {title}
let my calendar show "{title}" on {day}
help me organize "{title}" on {day}
We [have|planned|agreed on] "{title}" on {day}. Add the date
{day} is [reserved|booked] for {title}. Put that in the calendar
New date: {title}, {day}
enter {title} on {day} in my [calendar|diary|planner]
My plan for {day} is {title}. Enter it, please
My calendar needs {title} on {day}""",
        held_out="""get {title} into my calendar for {day}
make a calendar event called {title} for {day}
I need "{title}" in the calendar on {day}""",
        follow="on {day}|for {day}|the same on {day}",
        answers="{title} is in your calendar on {day}.",
        errors="calendar is full|bad date|calendar is locked",
    ),
    Concept(
        key="file",
        names="find_file search_files locate_file file_search where_is_file",
        descriptions="Find a file|Search the computer for a file|Tells where a file is",
        params=(Param("name file filename file_name", fill.file_name, "the file|name of the file"),),
        train="""find {name}
find the file {name}
[search|look] for the file {name}
[search|look] for {name} [on my computer|in my files|on the disk]
Where is {name}?
Where is the file {name}?
Where is my file {name}?
Where did I [put|save] {name}?
Where can I find {name}?
In which folder is {name}?
Which folder is {name} in?
locate {name}
locate the file {name}
I [cannot find|lost|am looking for] {name}
I need the file {name}. Where is it?
[show me|tell me] where {name} is
[File|Find file]: {name}
I wonder where {name} [went|is stored|has gone]
Do you know [where {name} is|which folder has {name}]?
[find out|let me know] where {name} is [stored|saved|kept]
My file {name} [is gone|has vanished|disappeared]. Please find it
I have to open {name} but do not know where it is
What is the [path|location|folder] of {name}?
give me the [path|folder|location] of {name}
track down {name}
make sure {name} is still [on this computer|on my disk]
{name}, where is it [saved|hiding]?
Path to {name}, please
Do I have a file [called|named] {name}?""",
        held_out="""help me to find {name}
In which place did I save {name}?
I am looking for a file named {name}""",
        follow="{name}|the file {name}|for {name}",
        answers="The file {name} is in {folder}.",
        result={"folder path directory": fill.folder},
        errors="file not found|no such file|disk not found",
    ),
    Concept(
        key="app",
        names="open_app launch_app start_app run_app app open_program",
        descriptions="Open an app|Start a program|Launches an app on the computer",
        params=(Param("app name program app_name", fill.app, "the app|name of the app|the program"),),
        train="""[open|start|launch|run] {app}
[open|start|launch|run] the app {app}
[open|start|launch|run] the {app} app
[open|start|run] {app} [for me|now]
[open|start|run] the program {app}
{app} app
[App|Open app|Start app]: {app}
I [want|need] to [use|open|start] {app}
I need the {app} app
I need the program {app}
bring up {app}
[show me|go to|switch to] the {app} app
let me [use|see] {app}
I want the app {app}[| running| to be running]
I would like to use the {app} app
[fire up|load] {app}
load the {app} [program|app]
make sure {app} is [open|started]
I have to [work|do something|write something] [in|with] {app}
{app} should [start|be open] now
Time [to use|for] {app}
help me get into {app}
let {app} start
put {app} on [the|my] screen
Is {app} installed? [Start|Open] it
Program {app}, please
[Can|Could] I use {app}[| now]?""",
        held_out="""get {app} running
I want you to bring up the {app} app
I would like to open the program {app}""",
        follow="{app}|open {app}|the app {app}",
        answers="I opened {app}.|{app} is open now.",
        errors="app not found|no such app|app has crashed",
    ),
    Concept(
        key="search",
        names="web_search search_web search search_internet google find_online",
        descriptions="Search the web|Search the internet|Finds pages on the web",
        params=(Param("query text terms q", fill.text(fill.QUERIES), "what to search|search words"),),
        train="""search the [web|internet] for {query}
search for {query}
search [online|the web|the internet] for "{query}"
look for {query} [online|on the web|on the internet]
find {query} [online|on the web|on the internet]
[look up|google] {query}
[google|search] "{query}"
[Search|Web search|Search the web|Google]: {query}
[do|make] a web search for {query}
use the [web|internet] to find {query}
What does the [web|internet] say about "{query}"?
What can you find online about "{query}"?
I want to search for {query}
I am looking for {query}. Search the web
I need a web search for {query}
[show me|find] pages about "{query}"
I need [information|facts|something] about "{query}"
find out [|more ]about "{query}"
help me find websites [on|about] "{query}"
Do you know any [pages|sites|links] about "{query}"?
browse the [internet|web] for {query}
I wonder what the internet knows about "{query}"
let me see [results|hits] for {query}
[Results|Links|Websites] for {query}, please
ask the [internet|search engine] about "{query}"
type {query} into [Google|a search engine]
There must be a website about "{query}". Find it
check the [web|internet] for {query}""",
        held_out="""What is on the web about "{query}"?
I want you to search online for {query}
use the web to look for {query}""",
        follow="{query}|for {query}|search for {query}",
        answers="The first result is: {headline}.",
        result={"headline title result top_result": fill.text(fill.HEADLINES)},
        errors="no results|nothing found|search is off",
    ),
)

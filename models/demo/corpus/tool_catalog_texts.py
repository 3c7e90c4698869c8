"""Tools for texts and programs, and how people ask for them: messages, notes, music, files, the web."""

from __future__ import annotations

from . import tool_fillers as fill
from .data import read
from .name_lists import person
from .tool_concept import Concept, Param

_TEXTS = read(__name__)

_LANGUAGES = """French Spanish German Italian Polish Greek Turkish Arabic Hindi Chinese Japanese Korean Dutch Swedish
Russian Latin Finnish Danish Portuguese Czech""".split()

TEXTS = (
    Concept(
        key="message",
        texts=_TEXTS.table("message"),
        params=(
            Param("to recipient person contact name", person, "who gets it|the person"),
            Param("text message body content", fill.text(fill.MESSAGES), "the text|what to say"),
        ),
    ),
    Concept(
        key="email",
        texts=_TEXTS.table("email"),
        params=(
            Param("to address recipient email", fill.address, "the address|who gets it"),
            Param("subject title topic", fill.text(fill.SUBJECTS), "the subject|what it is about"),
        ),
    ),
    Concept(
        key="music",
        texts=_TEXTS.table("music"),
        params=(Param("song title track query", fill.song, "song or artist|what to play|the song"),),
    ),
    Concept(
        key="translate",
        texts=_TEXTS.table("translate"),
        params=(
            Param("text phrase sentence words", fill.text(fill.PHRASES), "the text|what to translate"),
            Param("language to target target_language", fill.one_of(*_LANGUAGES), "the language|which language"),
        ),
        result={"translation text result": fill.foreign},
    ),
    Concept(
        key="note",
        texts=_TEXTS.table("note"),
        params=(Param("title name heading", fill.text(fill.SUBJECTS), "the title|name of the note"),),
    ),
    Concept(
        key="event",
        texts=_TEXTS.table("event"),
        params=(
            Param("title name event", fill.text(fill.SUBJECTS.replace("on {day}|", "")), "the title|what it is"),
            Param("day date when", fill.date, "the day|which day"),
        ),
    ),
    Concept(
        key="file",
        texts=_TEXTS.table("file"),
        params=(Param("name file filename file_name", fill.file_name, "the file|name of the file"),),
        result={"folder path directory": fill.folder},
    ),
    Concept(
        key="app",
        texts=_TEXTS.table("app"),
        params=(Param("app name program app_name", fill.app, "the app|name of the app|the program"),),
    ),
    Concept(
        key="search",
        texts=_TEXTS.table("search"),
        params=(Param("query text terms q", fill.text(fill.QUERIES), "what to search|search words"),),
        result={"headline title result top_result": fill.text(fill.HEADLINES)},
    ),
)

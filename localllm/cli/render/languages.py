"""What the highlighter knows of programming languages: words, strings, comments. A table, and how to look into it."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple


class Language(NamedTuple):
    """Signs and words of a language, or of a family that is close enough."""

    keywords: frozenset[str] = frozenset()
    constants: frozenset[str] = frozenset()
    line_comments: tuple[str, ...] = ()
    block_comments: tuple[tuple[str, str], ...] = ()
    strings: tuple[str, ...] = ('"', "'")
    """Quotes of strings that end with their line."""
    long_strings: tuple[tuple[str, str], ...] = ()
    """Those that need not."""
    ignores_case: bool = False
    keys: bool = False
    """Whether what stands before a colon or `=` is a name."""
    tags: bool = False
    """Whether `<name` and `</name` are words of the language."""
    variables: bool = False
    """Whether `$name` is one."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_C_LIKE = _words(
    "break case catch class const continue default delete do else enum export extends finally for goto if implements "
    "import interface new package private protected public return static super switch this throw throws try typedef "
    "union using virtual void volatile while namespace template typename struct sizeof operator override final "
    "abstract inline extern int long short char float double bool boolean byte string unsigned signed auto var val let "
    "fun fn func def type in is as where yield async await readonly instanceof typeof function constexpr noexcept "
    "concept requires sealed record internal"
)
_C_CONSTANTS = _words("true false null nullptr undefined NaN Infinity None nil self")
_C_COMMENTS = (("/*", "*/"),)

_PYTHON = Language(
    _words(
        "and as assert async await break class continue def del elif else except finally for from global if import in "
        "is lambda match case nonlocal not or pass raise return try type while with yield"
    ),
    _words("True False None self cls"),
    ("#",),
    long_strings=(('"""', '"""'), ("'''", "'''")),
)
_C = Language(
    _C_LIKE | _words("#include #define #ifdef #ifndef #endif #if #else #pragma"), _C_CONSTANTS, ("//",), _C_COMMENTS
)
_SCRIPT = _C._replace(keywords=_C_LIKE | _words("of from require"), long_strings=(("`", "`"),))
_RUST = Language(
    _words(
        "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut "
        "pub ref return static struct super trait type unsafe use where while bool char f32 f64 i8 i16 i32 i64 i128 "
        "isize str u8 u16 u32 u64 u128 usize"
    ),
    _words("true false None Some Ok Err self Self"),
    ("//",),
    _C_COMMENTS,
    strings=('"',),
)
_GO = Language(
    _words(
        "break case chan const continue default defer else fallthrough for func go goto if import interface map "
        "package range return select struct switch type var any bool byte error float32 float64 int int8 int16 int32 "
        "int64 rune string uint uint8 uint16 uint32 uint64"
    ),
    _words("true false nil iota"),
    ("//",),
    _C_COMMENTS,
    long_strings=(("`", "`"),),
)
_SHELL = Language(
    _words(
        "if then else elif fi for in do done while until case esac function return exit export local readonly set "
        "unset shift source alias echo cd sudo trap eval exec read test"
    ),
    _words("true false"),
    ("#",),
    variables=True,
)
_SQL = Language(
    _words(
        "select from where and or not in is like between join inner left right full outer cross on group by order "
        "having limit offset insert into values update set delete create table view index drop alter add column "
        "primary key foreign references unique default check constraint as distinct union all exists case when then "
        "else end with recursive over partition asc desc begin commit rollback transaction if int integer text varchar "
        "char boolean date timestamp numeric"
    ),
    _words("true false null"),
    ("--",),
    _C_COMMENTS,
    ignores_case=True,
)
_RUBY = Language(
    _words(
        "alias and begin break case class def defined? do else elsif end ensure for if in module next not or redo "
        "require rescue retry return super then undef unless until when while yield attr_accessor attr_reader puts"
    ),
    _words("true false nil self"),
    ("#",),
)
_PHP = _C._replace(
    keywords=_C_LIKE | _words("echo foreach elseif endif endforeach require require_once include use trait fn match"),
    line_comments=("//", "#"),
    variables=True,
)
_LUA = Language(
    _words("and break do else elseif end for function goto if in local not or repeat return then until while"),
    _words("true false nil self"),
    ("--",),
    (("--[[", "]]"),),
    long_strings=(("[[", "]]"),),
)
_FUNCTIONAL = Language(
    _words(
        "case class data deriving do else forall foreign if import in infix infixl infixr instance let module newtype "
        "of then type where begin end fun function match with open rec val sig struct mutable and defmodule def defp "
        "fn cond"
    ),
    _words("True False Nothing Just true false None Some nil"),
    ("--",),
    (("{-", "-}"), ("(*", "*)")),
    strings=('"',),
)
_JSON = Language(constants=_words("true false null"), line_comments=("//",), strings=('"',), keys=True)
_YAML = Language(constants=_words("true false null yes no on off True False"), line_comments=("#",), keys=True)
_INI = Language(constants=_words("true false"), line_comments=("#", ";"), long_strings=(('"""', '"""'),), keys=True)
_CSS = Language(_words("@media @import @keyframes @font-face !important"), block_comments=_C_COMMENTS, keys=True)
_MARKUP = Language(block_comments=(("<!--", "-->"),), strings=('"',), tags=True)
_R = Language(
    _words("if else repeat while function for in next break library require return"),
    _words("TRUE FALSE NULL NA Inf NaN"),
    ("#",),
)
_DOCKER = Language(
    _words("FROM RUN CMD LABEL EXPOSE ENV ADD COPY ENTRYPOINT VOLUME USER WORKDIR ARG ONBUILD HEALTHCHECK SHELL AS"),
    line_comments=("#",),
    variables=True,
)
_MAKE = Language(
    _words("ifeq ifneq ifdef ifndef else endif include define endef .PHONY"), line_comments=("#",), variables=True
)
_POWERSHELL = _SHELL._replace(
    keywords=_words(
        "function param if else elseif foreach for while do switch return try catch finally throw in begin end"
    ),
    block_comments=(("<#", "#>"),),
    ignores_case=True,
)
_SWIFT = _C._replace(
    keywords=_C_LIKE
    | _words("guard protocol extension init deinit mut weak lazy when object companion data override suspend"),
    long_strings=(('"""', '"""'),),
)
PLAIN = Language(strings=())
DIFF = Language(strings=())
"""Whole lines are one thing there."""

_NAMES: dict[str, Language] = {
    "python python3 py pycon ipython": _PYTHON,
    "c cpp c++ cc h hpp cxx java cs csharp c# objc objective-c glsl hlsl cuda arduino": _C,
    "js javascript jsx ts typescript tsx node mjs": _SCRIPT,
    "kotlin kt swift scala dart groovy": _SWIFT,
    "rust rs": _RUST,
    "go golang": _GO,
    "bash sh shell zsh fish console terminal": _SHELL,
    "powershell ps1 pwsh": _POWERSHELL,
    "sql postgresql mysql sqlite": _SQL,
    "ruby rb": _RUBY,
    "php": _PHP,
    "lua": _LUA,
    "haskell hs ocaml ml elm elixir ex fsharp": _FUNCTIONAL,
    "json json5 jsonc jsonl": _JSON,
    "yaml yml": _YAML,
    "toml ini cfg conf properties dotenv env": _INI,
    "css scss less": _CSS,
    "html xml svg xhtml vue": _MARKUP,
    "r": _R,
    "dockerfile docker": _DOCKER,
    "makefile make": _MAKE,
    "diff patch": DIFF,
}


@cache
def language(name: str) -> Language:
    """By the word after a code fence; `PLAIN` for what is not known."""
    wanted = name.lower()
    return next((known for names, known in _NAMES.items() if wanted in names.split()), PLAIN)

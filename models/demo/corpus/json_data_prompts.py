"""How people ask to turn data into JSON, and the system messages that ask for nothing but JSON."""

from __future__ import annotations

from .grammar import Phrasings

CONVERT = Phrasings(
    train=(
        "[Turn|Convert|Change] this [into|to] [JSON|a JSON object]:\n{data}",
        "[Turn|Convert|Change|Put] these lines into JSON:\n{data}",
        "[Please convert|Please turn|Can you turn|Can you convert] this into JSON[:|?]\n{data}",
        "[Write|Give me|Return|Output] this [as|in] JSON:\n{data}",
        "[Write|Give me|Return|Output] this data [as|in] JSON format.\n{data}",
        "[Make|Create|Build] [JSON|a JSON object] [of|from|out of] [this|these lines|this data]:\n{data}",
        "As JSON[| please]:\n{data}",
        "JSON[| please]:\n{data}",
        "To JSON:\n{data}",
        "Output JSON:\n{data}",
        "Data:\n{data}\n[Turn|Convert|Put] it into JSON.",
        "{data}\n[Turn|Convert|Put|Change] this into JSON.",
        "{data}\n[Write|Give me|Return|Output] this [as|in] JSON[| format].",
        "{data}\n\nAs JSON[| please].",
        "{data}\nJSON[| please| only]",
        "{data}\n[Make|Create] [JSON|a JSON object] [of|from|out of] this.",
        "I have these [lines|facts]:\n{data}\nI [need|want] them [as|in] JSON.",
        "I [need|want] this [as|in] JSON:\n{data}",
        "Here is some data:\n{data}\n[Write|Give me|Return] it as a JSON object.",
        "[Reply|Answer|Respond] with [JSON only|a JSON object] [for|from] this data:\n{data}",
        "[Parse|Read] [this|these lines|this data] and [return|output|write] JSON:\n{data}",
        "What does this look like [as|in] JSON?\n{data}",
        "Show me this [as|in] JSON:\n{data}",
    ),
    held_out=(
        "Please put this data into JSON:\n{data}",
        "Turn these lines into a JSON object.\n{data}",
        "{data}\nPlease convert this to JSON.",
        "Could you write this in JSON format?\n{data}",
    ),
)
"""Of lines of keys and values."""

ARRAY = Phrasings(
    train=(
        "[Turn|Convert|Change|Put] this list into [JSON|a JSON array]: {data}",
        "[Turn|Convert|Change|Put] these into [a JSON array|a JSON list]: {data}",
        "[Please turn|Please convert|Can you turn|Can you convert] this list into a JSON array[:|?] {data}",
        "[Write|Give me|Return|Output] [this list|these|these words] as [JSON|a JSON array|a JSON list]: {data}",
        "[Make|Create|Build] a JSON [array|list] [of|from|out of|with] [this|these|this list]: {data}",
        "[Make|Create|Build] a JSON [array|list] [of|from|with] {data}.",
        "[A JSON|JSON] array [of|with|from]: {data}",
        "JSON [array|list]: {data}",
        "As a JSON array: {data}",
        "Put {data} [in|into] a JSON array.",
        "[Turn|Convert|Change] {data} into a JSON [array|list].",
        "{data} [as|to] a JSON array[| please]",
        "{data}\n[Turn|Convert|Put|Change] this list into [JSON|a JSON array].",
        "{data}\n[Write|Give me|Return|Output] [this|it|them] as a JSON [array|list].",
        "{data}\nAs a JSON [array|list][| please].",
        "{data}\nJSON array[| please]",
        "List: {data}. [Give me|Return|Output|Write] a JSON array.",
        "My list is {data}. [Give me|Return|Output|Write] it as JSON.",
        "I have {data}. [Put|Write] them [in|into] a JSON array.",
        "I [need|want] [this list|these] as a JSON array: {data}",
        "[Reply|Answer|Respond] with a JSON array of these: {data}",
        "Show me this list [as|in] JSON: {data}",
    ),
    held_out=(
        "Please write this list as a JSON array: {data}",
        "Create a JSON list with {data}.",
        "{data}\nPlease turn these into a JSON array.",
        "Could you put this list into JSON? {data}",
    ),
)
"""Of a comma list."""

TABLE = Phrasings(
    train=(
        "[Turn|Convert|Change|Put] this into [JSON|a JSON array|a JSON list]: {data}",
        "[Turn|Convert|Change] this [text|sentence|list] into [JSON|a JSON array] of objects: {data}",
        "[Please turn|Please convert|Can you turn|Can you put] this into a JSON array of objects[:|?] {data}",
        "[Write|Give me|Return|Output] this as [JSON|a JSON array|a JSON list]: {data}",
        "[Write|Give me|Return|Output] a JSON array of objects: {data}",
        "[Make|Create|Build] [JSON|a JSON array|a JSON list] [of|from|out of] this: {data}",
        "As JSON[| please]: {data}",
        "As a JSON array: {data}",
        "To JSON: {data}",
        "{data}\nAs [JSON|a JSON array][| please].",
        "{data}\n[Turn|Convert|Put] this into [JSON|a JSON array|a JSON list].",
        "{data}\n[Turn|Convert|Put] this into a JSON array of objects.",
        "{data}\n[Write|Give me|Return|Output] [JSON|a JSON array][| please].",
        "{data}\nJSON array of objects[| please]",
        "Text: {data}\n[Write|Give me|Return|Output] it as [JSON|a JSON array].",
        "I [need|want] this as [JSON|a JSON array|a JSON list]: {data}",
        "[Reply|Answer|Respond] with a JSON array for this: {data}",
        "[Extract|Get] all of them as JSON: {data}",
        "[Parse|Read] this and [return|output] a JSON array: {data}",
        "Show me this [as|in] JSON: {data}",
    ),
    held_out=(
        "Please write this as a JSON array of objects: {data}",
        "Could you convert this into a JSON list? {data}",
        "{data}\nGive me this as JSON please.",
        "Extract a JSON array from this: {data}",
    ),
)
"""Of facts of several things."""

TABLE_KEYS = Phrasings(
    train=(
        "[Turn|Convert|Change|Put] this into a JSON array with {the_keys}: {data}",
        "[Turn|Convert|Change] this into [JSON|an array of JSON objects] with {keys}: {data}",
        "[Write|Give me|Return|Output] a JSON array of objects with {keys}: {data}",
        "[Make|Create|Build] a JSON [array|list] of objects with {the_keys}: {data}",
        "[Extract|Get|Find] [all|the] {keys} as a JSON array: {data}",
        "[Extract|Get] {keys} of each one as a JSON array. {data}",
        "{data}\n[Turn|Convert|Put] this into a JSON array with {the_keys}.",
        "{data}\n[Write|Give me|Return|Output] a JSON array of objects with {keys}.",
        "{data}\nJSON array with {keys}[| please]",
        "[Use|Follow] the format {shape}: {data}",
        "[Reply|Answer|Respond] [like|as|with] {shape}: {data}",
        "[Return|Output|Write] JSON like {shape}. {data}",
        "{data}\n[Return|Output|Write] it as {shape}",
        "JSON array of objects with {keys}: {data}",
        "I [need|want] a JSON array with {keys} for [each|all] of them: {data}",
        "Make [one|an] object with {keys} for each one, in a JSON array: {data}",
        "{data}\nEach object has {the_keys}. JSON array[| please].",
        "[Parse|Read] this and return a JSON array with {the_keys}: {data}",
        "What is this as a JSON array with {keys}? {data}",
        "Each object has {the_keys}. [Write|Return] a JSON array: {data}",
    ),
    held_out=(
        "Please turn this into a JSON array of objects with {keys}: {data}",
        "{data}\nMake a JSON list with {the_keys}.",
        "Convert this to JSON like {shape}: {data}",
        "Return {keys} of each one as a JSON array: {data}",
    ),
)

NESTED = Phrasings(
    train=(
        "Fill in {shape}: {text}",
        "Fill in this JSON: {shape}\n{text}",
        "[Turn|Convert|Put] this into JSON like {shape}: {text}",
        "[Turn|Convert|Put] this into {shape}\n{text}",
        "[Answer|Reply|Respond] [as|like|with|in the form] {shape}: {text}",
        "[Return|Output|Write|Give me] JSON like {shape}: {text}",
        "[Return|Output|Write] JSON in this [format|form]: {shape}\nText: {text}",
        "[Use|Take|Follow] [the|this] [template|format|form] {shape}\n{text}",
        "{text} [Answer|Reply|Respond] [as|like|with] {shape}",
        "{text} [Return|Output|Write|Give me] JSON like {shape}",
        "{text}\nFill in {shape}",
        "{shape}\n{text}",
        "Text: {text}\n[Template|Format]: {shape}",
        "[Make|Write|Create] JSON with {words}: {text}",
        "[Return|Output|Give me] [JSON|a JSON object] with {words}: {text}",
        "[Turn|Convert] this into JSON with {words}: {text}",
        "[Extract|Get] JSON with {words} from this [text|sentence]: {text}",
        "{text} [Write|Return|Give me] it as JSON with {words}.",
        "{text}\nMake JSON with {words}.",
        "Nested JSON with {words}: {text}",
        "I [need|want] JSON with {words}. {text}",
    ),
    held_out=(
        "Please fill in the form {shape} for this: {text}",
        "{text} Turn this into JSON like {shape}",
        "Create a JSON object with {words} from this text: {text}",
        "Please return JSON with {words}. {text}",
    ),
)
"""Of a text and an answer with objects or arrays inside, as a template or in words."""

ONLY_JSON = Phrasings(
    train=(
        "Always [answer|reply|respond] in JSON with the key {key}.",
        "Always [answer|reply|respond] [with|in] JSON that has the key {key}.",
        '[Answer|Reply|Respond] [only|always] with JSON: {"{key}": "..."}',
        'You [reply|answer|respond|speak] only [with|in] JSON: {"{key}": "..."}',
        'You [must|should] always [answer|reply|respond] [with|in] JSON like {"{key}": "..."}.',
        'Every answer [is|must be|should be] JSON like {"{key}": ...}.',
        "Every answer [is|must be] a JSON object with the [key|field] {key}.",
        "[Answer|Reply|Respond] [only in JSON|in JSON only|with JSON only]. [The key is|Use the key] {key}.",
        'Your answers are [always |]JSON with the key "{key}".',
        "You are [a helpful|a friendly|an] assistant. [Answer|Reply] [only |always |]in JSON with the key {key}.",
        'You are [a helpful|an] assistant that [speaks|answers] only JSON: {"{key}": "..."}',
        'Output JSON only, in this [format|form]: {"{key}": "..."}',
        'Output only JSON with one key, "{key}".',
        "Use JSON for [all|every one] of your answers, with the key {key}.",
        "Put every answer [in|into] a JSON object under the key {key}.",
        'Return JSON, no other text: {"{key}": "..."}',
        'Return a JSON object {"{key}": "..."} and nothing else.',
        "JSON only. Key: {key}.",
        "Never [write|answer with] plain text. [Write|Answer with] JSON with the key {key}.",
        "[Write|Give] [all|your] answers as JSON objects with the field {key}.",
        "[Always answer|Always reply|Answer only|Reply only] in JSON, key {key}, no other text.",
    ),
    held_out=(
        "Respond only with JSON that has the key {key}.",
        'You always reply in JSON like {"{key}": "..."}.',
        "You are an assistant. Every answer must be JSON with the key {key}.",
        'Return only JSON in this format: {"{key}": ...}',
    ),
)
"""System messages that name the key of every answer."""

ONLY_JSON_FREE = Phrasings(
    train=(
        "Always [answer|reply|respond] [in|with] JSON.",
        "[Answer|Reply|Respond] only [in|with] JSON.",
        "[Answer|Reply|Respond] in JSON only.",
        "You [speak|answer|reply] only [in |]JSON.",
        "Every answer [is|must be] JSON.",
        "JSON only.",
        "Output [only JSON|JSON only].",
        "You are [a helpful|an] assistant that [answers|speaks] only in JSON.",
    ),
    held_out=("You must always answer with JSON.", "Reply in JSON only.", "You are an assistant. Answer only in JSON."),
)
"""System messages that leave the key of an answer to the model: it is "answer"."""

EXTRACTING = Phrasings(
    train=(
        "[Extract|Get|Find] {keys} from the [text|message][ of the user|]. [Answer|Reply] [in JSON|with JSON only].",
        "[Extract|Get] {keys} and [answer|reply|respond] [in JSON|with JSON only|only in JSON].",
        "You [extract|find] {keys} in [texts|sentences] and [answer|reply] in JSON.",
        "You [turn|convert] every [sentence|text|message] into JSON with {the_keys}.",
        "[Turn|Convert] [what the user says|each message] into JSON with {the_keys}.",
        "[Answer|Reply|Respond] only with JSON like {shape}.",
        "Always [answer|reply|respond] with JSON like {shape}, from the text of the user.",
        "Fill in {shape} from [the text of the user|each message].",
        "You are a parser. Output JSON with {the_keys}.",
        "Output JSON with {keys} for each message.",
        "Return {keys} as JSON[|, no other text].",
        "[Output|Return] only {shape}, filled in from the [text|message] of the user.",
    ),
    held_out=(
        "Extract {keys} from each message and respond in JSON.",
        "You are a parser. Turn the text of the user into JSON like {shape}.",
        "Return JSON with {the_keys} for every message.",
    ),
)
"""System messages that ask to extract facts out of what the user says."""

JUDGING = Phrasings(
    train=(
        "[Judge|Rate|Find] the sentiment of each [message|text]. [Answer|Reply] in JSON with the key {key}.",
        'You judge the sentiment of [texts|reviews]. [Answer|Reply|Respond] only with JSON: {"{key}": "positive"} or '
        '{"{key}": "negative"}.',
        'Is the [text|message] of the user positive or negative? [Answer|Reply] [like|as] {"{key}": "..."}.',
        'Say if [each message|the text|what the user says] is positive or negative, as JSON: {"{key}": ...}',
        "Output the sentiment of each message, positive or negative, as JSON with the key {key}.",
        'Return JSON, {"{key}": "positive"} or {"{key}": "negative"}, for what the user says.',
        "You are a sentiment [judge|parser]. Output JSON with the key {key}, positive or negative.",
        "Give the mood of every message as JSON with the [key|field] {key}: positive or negative.",
    ),
    held_out=(
        "Find the sentiment of what the user says. Output only JSON with the key {key}.",
        'You are a judge of reviews. Return {"{key}": "positive"} or {"{key}": "negative"}.',
        "Answer with JSON that has the key {key}: is the message positive or negative?",
    ),
)
"""System messages that ask how what the user says sounds."""

FREE_KEYS = Phrasings(
    train=(
        "[Turn|Convert|Change|Put] this[ sentence| text|] into [JSON|a JSON object]: {text}",
        "[Turn|Convert|Put] the [sentence|text] into JSON.\n{text}",
        "[Please turn|Please convert|Can you turn|Can you convert] this[ sentence| text|] into JSON[:|?] {text}",
        "[Write|Give me|Return|Output] this [as|in] JSON: {text}",
        "[Write|Give me|Return|Output] the facts [as|in] JSON: {text}",
        "[Make|Create] [JSON|a JSON object] [of|from|out of] this[ sentence| text|]: {text}",
        "[Extract|Get|Find] [the facts|all facts|the data|all data] as JSON: {text}",
        "As JSON[| please]: {text}",
        "To JSON: {text}",
        "JSON[| please]: {text}",
        "{text} [Turn|Convert|Put] this into JSON.",
        "{text} [Write|Give me|Return] it as JSON.",
        "{text}\nAs JSON[| please].",
        "{text}\nJSON[| please| only]",
        "{text} [Extract|Get] the facts as a JSON object.",
        "I [need|want] this [as|in] JSON: {text}",
        "[Parse|Read] this and [return|output|write] JSON: {text}",
        "What is this [as|in] JSON? {text}",
    ),
    held_out=(
        "Please put this sentence into JSON: {text}",
        "{text} Can you write this in JSON?",
        "Extract JSON from this text: {text}",
        "Convert to JSON: {text}",
    ),
)
"""Of a text, where the answer is to name the keys."""

"""Options and help of `localllm transcribe`. The body is imported when the command runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from typer import Argument, Exit, Option

from localllm.cli.options.settings import COMMON, takes

SAMPLING = "temperature max_tokens"


@takes(
    f"{SAMPLING} api_key ctx slots threads gpu_layers device kv_type {COMMON}",
    "mmproj projector max_media_s max_media_bytes runtime rpc plugin_dir",
)
def transcribe(
    files: Annotated[
        list[str] | None,
        Argument(
            metavar="FILE...",
            help="Sounds: WAV, MP3, FLAC, Ogg; M4A and the sound of videos with localllm[media]; - reads stdin",
        ),
    ] = None,
    model: Annotated[
        str | None,
        Option("--model", "-m", metavar="MODEL", help="[default: the loaded model that hears, else the only one here]"),
    ] = None,
    language: Annotated[
        str | None,
        Option("--language", "-l", metavar="CODE", help="Of the sound, e.g. de [default: the model finds out]"),
    ] = None,
    translate: Annotated[bool, Option("--translate", help="Write it in English")] = False,
    format: Annotated[
        Literal["text", "srt", "vtt", "json", "verbose_json"] | None,
        Option(
            "--format",
            "-f",
            metavar="text|srt|vtt|json|verbose_json",
            help="[default: by the name of --output, else text: a line for each part]",
        ),
    ] = None,
    output: Annotated[
        str | None,
        Option("--output", "-o", metavar="FILE|DIR", help="Write there; DIR gets a file for each sound, named like it"),
    ] = None,
    prompt: Annotated[
        str | None,
        Option("--prompt", metavar="TEXT", help="Ask the model this, instead of what its kind was trained for"),
    ] = None,
    **settings: Any,
) -> None:
    """Write down what is said in sounds, as text or subtitles."""
    from localllm.cli.commands.transcribe import TranscribeOptions, transcribe_files
    from localllm.types import SamplingParams

    given = {name: settings.pop(name) for name in SAMPLING.split()}
    params = SamplingParams(temperature=given.pop("temperature") or 0.0, **given)
    options = TranscribeOptions(files or [], model, language, translate, format, output, prompt, params, settings)
    raise Exit(transcribe_files(options))

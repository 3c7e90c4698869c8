"""OpenAI's transcriptions: a file of sound in, its text out, by any model that hears. Speech out is not served.

Begin with `handlers`. How a long sound becomes a transcript is told in `runtime.transcripts`.
"""

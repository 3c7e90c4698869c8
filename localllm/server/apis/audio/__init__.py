"""OpenAI's transcriptions: a file of sound in, its text out, by any model that hears. Speech out is not served.

Begin with `handlers`. A long sound is cut at silences by the worker; its parts are answered side by side (`parts`).
"""

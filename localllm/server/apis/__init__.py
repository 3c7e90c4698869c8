"""The APIs, one room per dialect. No dialect knows another; what several share is in `server/requests`.

Each has `requests` (what is decoded), `replies` (what is encoded) and `handlers` (its endpoints). Begin with
`openai`.
"""

"""LM Studio's lists of models, in which clients look for capabilities and the loaded context. Answers are OpenAI's."""

"""LM Studio's lists of models: where clients look for tools and for the loaded context. Answers are OpenAI's."""

"""The page that `GET /` gives browsers: chat, models, what the machine does. Its files, and what only it asks for."""

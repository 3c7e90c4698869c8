"""What several APIs have alike: fields of requests with their meaning, and pieces of replies."""

"""What several APIs share: request fields with their meaning, and parts of replies."""

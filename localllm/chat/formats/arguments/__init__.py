"""The arguments of calls, in each way that models write them: read as JSON as they come, and written."""

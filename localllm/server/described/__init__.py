"""The endpoints as data: the OpenAPI document and the table of every request field."""

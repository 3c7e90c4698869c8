"""What several APIs read from requests: bodies within limits, shared fields, messages, tools, structures.

Knows no API's format. Begin with `field_rules`."""

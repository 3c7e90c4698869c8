"""What a JSON Schema says of values, for those who read them and those who write their grammars.

The whole of JSON Schema is in `grammar/schema`. Begin with `value_schemas`.
"""

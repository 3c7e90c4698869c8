// Checks a JSON value against a schema: the keywords about structure, numbers and strings.

/**
 * The violations: path, such as `items.0.name`, -> keyword; empty if the value matches.
 * @param {any} value @param {any} schema @param {any} [root] @param {string} [path] @param {Map<string, string>} [found]
 * @returns {Map<string, string>}
 */
export function problems(value, schema, root = schema, path = "", found = new Map()) {
  if (schema === true || typeof schema !== "object" || schema === null) { if (schema === false) found.set(path, "false"); return found; }
  /** @param {boolean} holds @param {string} keyword @param {string} [at] */
  const check = (holds, keyword, at = path) => { if (!holds && !found.has(at)) found.set(at, `${keyword}: ${JSON.stringify(schema[keyword])}`); };
  /** @param {any} each @param {any} part @param {string | number} name */
  const inner = (each, part, name) => problems(each, part, root, path ? `${path}.${name}` : String(name), found);
  /** @param {any} part */
  const fits = (part) => problems(value, part, root).size === 0;
  if (schema.$ref?.startsWith("#")) {
    const target = schema.$ref.slice(1).split("/").filter(Boolean).reduce((/** @type {any} */ at, /** @type {string} */ name) => at?.[decodeURIComponent(name).replaceAll("~1", "/").replaceAll("~0", "~")], root);
    problems(value, target, root, path, found);
  }
  if (schema.type !== undefined) check([schema.type].flat().some((type) => isOf(value, type)), "type");
  if (schema.enum) check(schema.enum.some((/** @type {any} */ each) => JSON.stringify(each) === JSON.stringify(value)), "enum");
  if ("const" in schema) check(JSON.stringify(schema.const) === JSON.stringify(value), "const");
  for (const part of schema.allOf ?? []) problems(value, part, root, path, found);
  if (schema.anyOf) check(schema.anyOf.some(fits), "anyOf");
  if (schema.oneOf) check(schema.oneOf.filter(fits).length === 1, "oneOf");
  if (schema.not !== undefined) check(!fits(schema.not), "not");
  if (typeof value === "number") {
    check(!(value < schema.minimum), "minimum");
    check(!(value > schema.maximum), "maximum");
    check(!(value <= schema.exclusiveMinimum), "exclusiveMinimum");
    check(!(value >= schema.exclusiveMaximum), "exclusiveMaximum");
  } else if (typeof value === "string") {
    check(!([...value].length < schema.minLength), "minLength");
    check(!([...value].length > schema.maxLength), "maxLength");
    if (schema.pattern) check(new RegExp(schema.pattern, "u").test(value), "pattern");
  } else if (Array.isArray(value)) {
    check(!(value.length < schema.minItems), "minItems");
    check(!(value.length > schema.maxItems), "maxItems");
    value.forEach((each, index) => inner(each, schema.prefixItems?.[index] ?? schema.items, index));
  } else if (value !== null && typeof value === "object") {
    for (const name of schema.required ?? []) check(Object.hasOwn(value, name), "required");
    for (const [name, each] of Object.entries(value)) {
      if (Object.hasOwn(schema.properties ?? {}, name)) inner(each, schema.properties[name], name);
      else if (schema.additionalProperties !== undefined && !schema.patternProperties) inner(each, schema.additionalProperties, name);
    }
  }
  return found;
}

/** @param {any} value @param {string} type */
function isOf(value, type) {
  if (type === "integer") return Number.isInteger(value);
  if (type === "array") return Array.isArray(value);
  if (type === "null") return value === null;
  if (type === "object") return typeof value === "object" && value !== null && !Array.isArray(value);
  return typeof value === type;
}

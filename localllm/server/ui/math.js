// Formulas: the part of LaTeX that models write, as MathML. What is unknown stays source.

const MATHML = "http://www.w3.org/1998/Math/MathML";
const MAX_CHARS = 4000, MAX_DEPTH = 40;

/** Without what every object has: a model may write `\\constructor`. @template T @param {Record<string, T>} from @returns {Record<string, T>} */
const own = (from) => Object.assign(Object.create(null), from);
/** Lists of `name character`. @param {string} text @returns {Record<string, string>} */
const table = (text) => own(Object.fromEntries(text.trim().split(/\s*[;\n]\s*/).filter(Boolean).map((row) => row.split(" "))));
const LETTERS = table(`alpha α;beta β;gamma γ;delta δ;epsilon ϵ;varepsilon ε;zeta ζ;eta η;theta θ;vartheta ϑ;iota ι;kappa κ;lambda λ;mu μ;nu ν;xi ξ;omicron ο;pi π;varpi ϖ;rho ρ;varrho ϱ
sigma σ;varsigma ς;tau τ;upsilon υ;phi ϕ;varphi φ;chi χ;psi ψ;omega ω;Gamma Γ;Delta Δ;Theta Θ;Lambda Λ;Xi Ξ;Pi Π;Sigma Σ;Upsilon Υ;Phi Φ;Psi Ψ;Omega Ω
infty ∞;partial ∂;nabla ∇;hbar ℏ;ell ℓ;Re ℜ;Im ℑ;aleph ℵ;emptyset ∅;varnothing ∅;imath ı;jmath ȷ;wp ℘;angle ∠;triangle △;square □;blacksquare ■;degree °;prime ′;top ⊤;bot ⊥;dots …;ldots …;cdots ⋯;vdots ⋮;ddots ⋱;dotsc …;dotsb ⋯`);
const OPERATORS = table(`times ×;cdot ⋅;div ÷;pm ±;mp ∓;ast ∗;star ⋆;circ ∘;bullet ∙;oplus ⊕;ominus ⊖;otimes ⊗;oslash ⊘;odot ⊙;wedge ∧;land ∧;vee ∨;lor ∨;neg ¬;lnot ¬;cap ∩;cup ∪;setminus ∖;uplus ⊎;amalg ⨿;dagger †;ddagger ‡
le ≤;leq ≤;leqslant ⩽;ge ≥;geq ≥;geqslant ⩾;lt <;gt >;ll ≪;gg ≫;ne ≠;neq ≠;equiv ≡;approx ≈;sim ∼;simeq ≃;cong ≅;propto ∝;prec ≺;succ ≻;preceq ⪯;succeq ⪰;in ∈;notin ∉;ni ∋;subset ⊂;subseteq ⊆;subsetneq ⊊;supset ⊃;supseteq ⊇;sqsubseteq ⊑;mid ∣;nmid ∤;parallel ∥;perp ⊥;vdash ⊢;dashv ⊣;models ⊨;vDash ⊨;asymp ≍;doteq ≐;coloneqq ≔;triangleq ≜
to →;rightarrow →;gets ←;leftarrow ←;leftrightarrow ↔;Rightarrow ⇒;implies ⟹;Leftarrow ⇐;impliedby ⟸;Leftrightarrow ⇔;iff ⟺;mapsto ↦;longrightarrow ⟶;longleftarrow ⟵;Longrightarrow ⟹;longmapsto ⟼;hookrightarrow ↪;uparrow ↑;downarrow ↓;updownarrow ↕;Uparrow ⇑;Downarrow ⇓;nearrow ↗;searrow ↘;rightharpoonup ⇀;rightleftharpoons ⇌;leadsto ⇝
forall ∀;exists ∃;nexists ∄;therefore ∴;because ∵;colon :;backslash \\\\`);
const DELIMITERS = table(`langle ⟨;rangle ⟩;lfloor ⌊;rfloor ⌋;lceil ⌈;rceil ⌉;lvert |;rvert |;vert |;lVert ‖;rVert ‖;Vert ‖;lbrace {;rbrace };lbrack [;rbrack ];{ {;} };| ‖`);
const LARGE = table(`sum ∑;prod ∏;coprod ∐;bigcup ⋃;bigcap ⋂;bigoplus ⨁;bigotimes ⨂;bigvee ⋁;bigwedge ⋀;bigsqcup ⨆`);
const INTEGRALS = table(`int ∫;iint ∬;iiint ∭;oint ∮;oiint ∯`);
const LIMITS = new Set("lim max min sup inf limsup liminf argmax argmin det gcd Pr".split(" "));
const FUNCTIONS = new Set("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp dim ker deg arg hom tr rank sgn".split(" "));
const ACCENTS = table(`hat ^;widehat ^;bar ¯;vec →;overrightarrow →;dot ˙;ddot ¨;tilde ~;widetilde ~;check ˇ;breve ˘;overbrace ⏞;mathring ˚`);
const BELOW = table(`underbrace ⏟`);
const SPACES = own({ ",": ".17em", ":": ".22em", ">": ".22em", ";": ".28em", "!": "-.17em", " ": ".25em", quad: "1em", qquad: "2em", enspace: ".5em", thinspace: ".17em" });
const FENCES = /** @type {Record<string, [string, string]>} */ ({ pmatrix: ["(", ")"], bmatrix: ["[", "]"], Bmatrix: ["{", "}"], vmatrix: ["|", "|"], Vmatrix: ["‖", "‖"], cases: ["{", ""], dcases: ["{", ""], rcases: ["", "}"] });
const TABLES = new Set([..."matrix smallmatrix array aligned align alignat alignedat split gathered gather equation eqnarray".split(" "), ...Object.keys(FENCES)]);
const STYLES = new Set("displaystyle textstyle scriptstyle limits nolimits nonumber notag hline centering".split(" "));
const TEXTS = new Set("text textrm textbf textit texttt textsf textnormal mbox hbox operatorname".split(" "));
const UPRIGHT = new Set("mathrm mathsf mathtt mathit".split(" "));
/** Behind these, a minus belongs to what follows. */
const CLOSING = /^[)\]}|!′%⟩⌋⌉‖]$/u;
/** First capital, small letter and digit of an alphabet, and the letters that Unicode had before it. @type {Record<string, [number, number, number, Record<string, string>]>} */
const ALPHABETS = {
  bb: [0x1d538, 0x1d552, 0x1d7d8, { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" }],
  cal: [0x1d49c, 0x1d4b6, 0, { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" }],
  frak: [0x1d504, 0x1d51e, 0, { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" }],
  bf: [0x1d400, 0x1d41a, 0x1d7ce, {}],
};
const FONTS = own(/** @type {Record<string, keyof typeof ALPHABETS>} */ ({ mathbb: "bb", mathcal: "cal", mathscr: "cal", mathfrak: "frak", mathbf: "bf", boldsymbol: "bf", bm: "bf", symbf: "bf" }));

/** Bars open as well as close, so that they have no space of their own. */
const BESIDE = { lspace: "0", rspace: "0" };

/** Says that a formula has something that is not known here. */
class Unknown extends Error {}

/**
 * The formula as a `math` element; null if anything in it is unknown.
 * @param {string} source LaTeX without its delimiters
 * @param {boolean} isBlock
 */
export function formula(source, isBlock) {
  if (source.length > MAX_CHARS) return null;
  try {
    const reader = new Reader(source);
    const inner = reader.row(() => false);
    return node("math", inner, { display: isBlock ? "block" : null, alttext: source });
  } catch (error) {
    if (error instanceof Unknown) return null;
    throw error;
  }
}

/** @param {string} tag @param {(Node | string)[]} children @param {Record<string, string | null>} [attributes] */
function node(tag, children, attributes = {}) {
  const made = document.createElementNS(MATHML, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** @param {Element[]} nodes */
const grouped = (nodes) => (nodes.length === 1 ? nodes[0] : node("mrow", nodes));
/** @param {string} text @param {Record<string, string>} [attributes] */
const mo = (text, attributes) => node("mo", [text], attributes);

/** Letters of an alphabet of Unicode, since browsers know no `mathvariant`. @param {string} text @param {keyof typeof ALPHABETS} name */
function lettered(text, name) {
  const [capital, small, digit, known] = ALPHABETS[name];
  return [...text].map((char) => {
    const first = /[A-Z]/.test(char) ? capital - 65 : /[a-z]/.test(char) ? small - 97 : /[0-9]/.test(char) && digit ? digit - 48 : 0;
    return known[char] ?? (first ? String.fromCodePoint(first + char.charCodeAt(0)) : char);
  }).join("");
}

class Reader {
  /** @param {string} source */
  constructor(source) {
    this.tokens = source.match(/\\(?:[a-zA-Z]+\*?|[^])|\d+(?:\.\d+)?|\s+|[^]/gu) ?? [];
    this.at = 0;
    this.depth = 0;
  }

  get next() {
    while (/^\s/.test(this.tokens[this.at] ?? "")) this.at++;
    return this.tokens[this.at];
  }

  take() {
    const token = this.next;
    this.at++;
    return token;
  }

  /** @param {string} token */
  expect(token) {
    if (this.take() !== token) throw new Unknown(token);
  }

  /** Everything up to a token at which it ends, which is left. @param {(token: string) => boolean} ends @returns {Element[]} */
  row(ends) {
    if (++this.depth > MAX_DEPTH) throw new Unknown("depth");
    /** @type {Element[]} */
    const out = [];
    for (let token = this.next; token !== undefined && !ends(token); token = this.next) {
      if (token === "}" || token === "&" || token === "\\\\" || token === "\\end" || token === "\\right") throw new Unknown(token);
      const atom = this.atom();
      const whole = this.scripts(atom), last = out.at(-1);
      if (whole?.localName === "mo" && /^[−+±∓]$/.test(whole.textContent ?? "") && (!last || (last.localName === "mo" && !CLOSING.test(last.textContent ?? "")))) whole.setAttribute("form", "prefix");
      if (whole) out.push(whole);
    }
    this.depth--;
    return out;
  }

  /** An argument: a group or one atom. @returns {Element} */
  argument() {
    if (this.next === "{") return this.group();
    if (this.next === undefined || "}&^_".includes(this.next)) throw new Unknown("argument");
    const digits = /^\d{2,}/.test(this.next) ? this.next : null;
    if (digits) { this.tokens.splice(this.at, 1, ...digits); return node("mn", [/** @type {string} */ (this.take())]); } // \frac12
    return this.atom() ?? node("mrow", []);
  }

  group() {
    this.expect("{");
    const inner = this.row((token) => token === "}");
    this.expect("}");
    return grouped(inner);
  }

  /** The text of a group, as it stands. */
  text() {
    this.expect("{");
    let text = "";
    for (let open = 1; ; ) {
      const token = this.tokens[this.at++];
      if (token === undefined || token === "$") throw new Unknown("text");
      open += Number(token === "{") - Number(token === "}");
      if (!open) return text;
      text += token.replace(/^\\([^a-zA-Z])$/, "$1");
      if (/^\\[a-zA-Z]/.test(token)) throw new Unknown(token);
    }
  }

  /** The atom with what stands above and below it. @param {Element | null} atom */
  scripts(atom) {
    /** @type {Element | null} */
    let below = null, above = null;
    for (let token = this.next; token === "_" || token === "^" || token === "'"; token = this.next) {
      if (token === "'") {
        let primes = "";
        while (this.next === "'") { this.take(); primes += "′"; }
        above = grouped([mo(primes), ...(this.next === "^" && this.take() ? [this.argument()] : [])]);
        continue;
      }
      if (token === "_" ? below : above) throw new Unknown("double script");
      this.take();
      if (token === "_") below = this.argument();
      else above = this.argument();
    }
    if (!below && !above) return atom;
    const base = atom ?? node("mrow", []);
    const tag = base.getAttribute("movablelimits") || base.hasAttribute("data-limits") ? ["munder", "mover", "munderover"] : ["msub", "msup", "msubsup"];
    return node(tag[below && above ? 2 : above ? 1 : 0], /** @type {Element[]} */ ([base, below, above].filter(Boolean)));
  }

  /** @returns {Element | null} null: nothing to be seen */
  atom() {
    const token = this.next;
    if (token === "{") return this.group();
    if (token === "^" || token === "_") return null;
    this.take();
    if (token.startsWith("\\")) return this.command(token.slice(1).replace(/\*$/, ""));
    if (/^\d/.test(token)) return node("mn", [token]);
    if (/^[\p{L}∞∂∇]/u.test(token)) return node("mi", [token]);
    if (token === "~") return node("mspace", [], { width: ".25em" });
    if (token === "%" || token === "#" || token === "$") throw new Unknown(token);
    const isFence = "()[]|".includes(token);
    return mo(token === "-" ? "−" : token === "*" ? "∗" : token, isFence ? { stretchy: "false", ...(token === "|" && BESIDE) } : undefined);
  }

  /** @param {string} name @returns {Element | null} */
  command(name) {
    if (LETTERS[name]) return node("mi", [LETTERS[name]], /^[A-Z]/.test(name) ? { mathvariant: "normal" } : {});
    if (OPERATORS[name]) return mo(OPERATORS[name]);
    if (DELIMITERS[name]) return mo(DELIMITERS[name], { stretchy: "false", ...(/[|‖]/.test(DELIMITERS[name]) && BESIDE) });
    if (LARGE[name]) return mo(LARGE[name], { largeop: "true", movablelimits: "true" });
    if (INTEGRALS[name]) return mo(INTEGRALS[name], { largeop: "true" });
    if (LIMITS.has(name)) return mo(name.replace(/^(lim|arg)(?=.)/, "$1\u2009"), { movablelimits: "true", rspace: ".17em", lspace: ".17em" });
    if (FUNCTIONS.has(name)) return mo(name, { rspace: ".17em", lspace: "0" });
    if (SPACES[name]) return node("mspace", [], { width: SPACES[name] });
    if (ACCENTS[name]) return node("mover", [this.argument(), mo(ACCENTS[name], { stretchy: String(/^(wide|over)/.test(name)) })], { accent: "true", "data-limits": name === "overbrace" ? "" : null });
    if (BELOW[name]) return node("munder", [this.argument(), mo(BELOW[name], { stretchy: "true" })], { "data-limits": "" });
    if (FONTS[name]) return this.font((text) => lettered(text, FONTS[name]));
    if (UPRIGHT.has(name)) return this.font((text) => text);
    if (TEXTS.has(name)) { const text = this.text(); return name.startsWith("text") || name.endsWith("box") ? node("mtext", [text.replace(/^ | $/g, "\u00a0")]) : node("mi", [text], { mathvariant: "normal" }); }
    if (STYLES.has(name)) return null;
    if (/^[bB]igg?[lrm]?$/.test(name)) return mo(this.delimiter(), { stretchy: "true", minsize: { big: "1.2em", Big: "1.8em", bigg: "2.4em", Bigg: "3em" }[name.replace(/[lrm]$/, "")] ?? "1em" });
    if (/^[%#$&_]$/.test(name)) return node("mi", [name], { mathvariant: "normal" });
    switch (name) {
      case "frac": case "dfrac": case "tfrac": case "cfrac": return node("mfrac", [this.argument(), this.argument()], { displaystyle: name === "dfrac" ? "true" : null });
      case "binom": case "dbinom": return node("mrow", [mo("("), node("mfrac", [this.argument(), this.argument()], { linethickness: "0" }), mo(")")]);
      case "sqrt": {
        if (this.next !== "[") return node("msqrt", [this.argument()]);
        this.take();
        const degree = grouped(this.row((token) => token === "]"));
        this.expect("]");
        return node("mroot", [this.argument(), degree]);
      }
      case "left": return this.fenced();
      case "middle": return mo(this.delimiter(), { stretchy: "true" });
      case "begin": return this.environment();
      case "stackrel": case "overset": { const above = this.argument(); return node("mover", [this.argument(), above]); }
      case "underset": { const below = this.argument(); return node("munder", [this.argument(), below]); }
      case "xrightarrow": case "xleftarrow": return node("mover", [mo(name === "xrightarrow" ? "⟶" : "⟵", { stretchy: "true" }), node("mpadded", [this.argument()], { lspace: ".4em", width: "+.8em" })]);
      case "not": { const denied = this.argument(); denied.append("\u0338"); return denied; }
      case "boxed": case "overline": case "underline": return node("mpadded", [this.argument()], { class: name });
      case "textcolor": case "color": this.text(); return name === "color" ? null : this.argument();
      case "label": this.text(); return null;
      case "tag": return node("mtext", [`\u2003(${this.text()})`]);
      case "pmod": return node("mrow", [node("mspace", [], { width: ".6em" }), mo("(", { stretchy: "false" }), node("mi", ["mod"]), node("mspace", [], { width: ".3em" }), this.argument(), mo(")", { stretchy: "false" })]);
      case "bmod": case "mod": return mo("mod", { lspace: ".3em", rspace: ".3em" });
      case "phantom": return node("mphantom", [this.argument()]);
      case "substack": this.expect("{"); return this.cells("}", "c");
      default: throw new Unknown(name);
    }
  }

  /** An argument in other letters, which are upright. @param {(text: string) => string} how */
  font(how) {
    const inner = this.argument();
    for (const each of [inner, ...inner.querySelectorAll("*")]) {
      if (each.localName !== "mi" && each.localName !== "mn") continue;
      each.textContent = how(each.textContent ?? "");
      if (each.localName === "mi") each.setAttribute("mathvariant", "normal");
    }
    return inner;
  }

  delimiter() {
    const token = this.take() ?? "";
    const name = token.startsWith("\\") ? DELIMITERS[token.slice(1)] ?? OPERATORS[token.slice(1)] : { ".": "", "<": "⟨", ">": "⟩" }[token] ?? token;
    if (name === undefined || name.length > 1) throw new Unknown(token);
    return name;
  }

  fenced() {
    const open = this.delimiter();
    const inner = this.row((token) => token === "\\right");
    this.expect("\\right");
    const close = this.delimiter();
    return node("mrow", [open && mo(open, { stretchy: "true", form: "prefix" }), ...inner, close && mo(close, { stretchy: "true", form: "postfix" })].filter((each) => each !== ""));
  }

  environment() {
    const name = this.text().replace(/\*$/, "");
    if (!TABLES.has(name)) throw new Unknown(name);
    const columns = name === "array" || name.startsWith("alignat") || name === "alignedat" ? this.text() : "";
    const aligns = /^(align|split|eqnarray)/.test(name) ? "rl".repeat(20) : name.endsWith("cases") ? "l".repeat(20) : columns.replace(/[^lcr]/g, "") || "c";
    const inner = this.cells("\\end", aligns, /^(align|split|gather|equation|eqnarray|d?cases)/.test(name));
    if (this.text().replace(/\*$/, "") !== name) throw new Unknown(name);
    const [open, close] = FENCES[name] ?? ["", ""];
    return node("mrow", [open && mo(open, { stretchy: "true", form: "prefix" }), inner, close && mo(close, { stretchy: "true", form: "postfix" })].filter((each) => each !== ""));
  }

  /** Rows and columns up to the token that ends them. @param {string} end @param {string} aligns a letter for each column @param {boolean} [isDisplay] */
  cells(end, aligns, isDisplay = false) {
    const rows = [];
    for (let isLast = false; !isLast; ) {
      const cells = [];
      for (let more = true; more; ) {
        const inner = this.row((token) => token === "&" || token === "\\\\" || token === end);
        cells.push(node("mtd", inner, { class: `m${aligns[cells.length] ?? aligns.at(-1)}` }));
        const stopped = this.take();
        if (stopped === undefined) throw new Unknown(end);
        more = stopped === "&";
        isLast = stopped === end;
      }
      if (cells.length > 1 || cells[0].childNodes.length || !isLast) rows.push(node("mtr", cells));
      if (!isLast && this.next === "[") { while (this.take() !== "]") if (this.next === undefined) throw new Unknown("["); }
    }
    return node("mtable", rows, { displaystyle: isDisplay ? "true" : null, class: aligns.startsWith("rl") ? "aligned" : null });
  }
}

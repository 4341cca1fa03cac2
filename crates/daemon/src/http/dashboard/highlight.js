// Colors code. A small lexer instead of a library, because a library would add megabytes. It knows
// comments, strings, numbers and keywords of common languages, and runs in linear time.

/** Maximum number of characters and of tokens. The rest of a longer text is not colored. */
const MAX_CODE = 100000;
const MAX_TOKENS = 4000;

const words = text => new Set(text.split(" "));
const C_WORDS = "break case char class const continue default do double else enum extends false final finally float for goto if import int interface long namespace new null private protected public return short static struct super switch this throw true try typedef union unsigned using virtual void while";
const WORDS = {
  js: words(C_WORDS + " async await catch debugger delete export from function get in instanceof let of set typeof undefined var yield type implements readonly declare as any string number boolean never unknown keyof"),
  c: words(C_WORDS + " auto bool catch constexpr delete explicit extern friend inline nullptr operator override sizeof template typename boolean byte package synchronized throws abstract native var val fun let func guard string object readonly async await foreach in is as not when where record internal sealed"),
  rust: words("as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while bool u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64 str String Option Some None Result Ok Err Vec Box"),
  go: words("break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false string int bool byte error any"),
  python: words("and as assert async await break class continue def del elif else except False finally for from global if import in is lambda match case None nonlocal not or pass raise return self True try while with yield"),
  ruby: words("alias and begin break case class def do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield require"),
  sh: words("if then else elif fi for while until do done case esac in function select return exit local export readonly declare set unset shift trap source alias cd echo eval exec test true false"),
  sql: words("select from where insert into values update set delete create table index view drop alter add column primary key foreign references join left right inner outer full on group by order having limit offset union all distinct as and or not null is in exists between like case when then else end begin commit rollback with returning default unique constraint true false"),
  data: words("true false null yes no on off True False None nil"),
};
/** How comments and strings look, and the keywords. */
const FAMILIES = {
  js: ["//", "js", true],
  c: ["//", "c", true],
  rust: ["//", "rust", false],
  go: ["//", "go", true],
  python: ["#", "python", false],
  ruby: ["#", "ruby", false],
  sh: ["#", "sh", false],
  sql: ["--", "sql", false],
  data: ["#", "data", false],
  css: ["/*", "data", false],
  lua: ["--", "ruby", false],
};
const LANGUAGES = {
  js: "js jsx ts tsx javascript typescript mjs cjs vue svelte",
  c: "c h cc cpp c++ hpp cs c# csharp java kotlin kt swift scala php dart objc m groovy proto glsl zig",
  rust: "rust rs",
  go: "go golang",
  python: "python py python3 pyi starlark",
  ruby: "ruby rb elixir ex perl pl r julia jl nim crystal",
  sh: "sh bash zsh fish shell console shell-session dockerfile docker make makefile powershell ps1 nix",
  sql: "sql postgres postgresql mysql sqlite plsql",
  data: "json json5 jsonc yaml yml toml ini cfg conf properties hcl tf graphql env",
  css: "css scss less",
  lua: "lua haskell hs",
};
const FAMILY_OF = new Map(Object.entries(LANGUAGES).flatMap(([family, names]) => names.split(" ").map(name => [name, family])));

const STRING = /"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?/y;
const TEMPLATE = /`(?:[^`\\]|\\[^])*`?/y;
const LINE_COMMENTS = { "//": /\/\/.*|\/\*(?:[^*]|\*(?!\/))*(?:\*\/)?/y, "#": /#.*/y, "--": /--.*/y, "/*": /\/\*(?:[^*]|\*(?!\/))*(?:\*\/)?/y };
const NUMBER = /\d[\w.]*/y;
const WORD = /[A-Za-z_$][\w$]*/y;
/** Characters that start nothing. */
const NOTHING = /[^\w"'`#/$-]+|[^]/y;

/** Tokens as pairs of kind and text. An empty kind is plain text. */
function* lex(code, family) {
  const [comment, wordsName, hasTemplates] = FAMILIES[family];
  const keywords = WORDS[wordsName];
  // Rust and C use single quotes for characters and lifetimes.
  const rules = [[LINE_COMMENTS[comment], "comment"], [STRING, "string"]];
  if (hasTemplates) rules.push([TEMPLATE, "string"]);
  let at = 0;
  const take = rule => {
    rule.lastIndex = at;
    return rule.exec(code)?.[0];
  };
  next: while (at < code.length) {
    for (const [rule, kind] of rules) {
      // "'a" in Rust is a lifetime, and "it's" in a comment or shell is an apostrophe.
      if (kind === "string" && code[at] === "'" && family === "rust" && code[at + 2] !== "'" && code[at + 1] !== "\\") continue;
      const text = take(rule);
      // In a shell, "$#" and "a#b" are not comments.
      if (text && !(kind === "comment" && comment === "#" && at > 0 && !/\s/.test(code[at - 1]))) {
        at += text.length;
        yield [kind, text];
        continue next;
      }
    }
    const number = take(NUMBER);
    if (number) {
      at += number.length;
      yield ["number", number];
      continue;
    }
    const word = take(WORD);
    if (word) {
      at += word.length;
      const isKeyword = keywords.has(family === "sql" ? word.toLowerCase() : word);
      yield [isKeyword ? "keyword" : code[at] === "(" ? "call" : "", word];
      continue;
    }
    const plain = take(NOTHING);
    at += plain.length;
    yield ["", plain];
  }
}

/** Code as nodes. A language that is not known is not colored. */
function highlighted(code, lang) {
  const whole = document.createDocumentFragment();
  if (lang === "diff" || lang === "patch") {
    for (const line of code.split("\n").slice(0, MAX_TOKENS)) {
      const kind = { "+": "added", "-": "removed", "@": "keyword" }[line[0]];
      whole.append(kind ? el("span", { class: "hl-" + kind }, line) : line, "\n");
    }
    return whole;
  }
  const family = FAMILY_OF.get(lang);
  if (!family || code.length > MAX_CODE) {
    whole.append(code);
    return whole;
  }
  let count = 0;
  let plain = "";
  let at = 0;
  for (const [kind, text] of lex(code, family)) {
    at += text.length;
    if (!kind) {
      plain += text;
      continue;
    }
    if (plain) whole.append(plain);
    plain = "";
    whole.append(el("span", { class: "hl-" + kind }, text));
    count += 1;
    if (count >= MAX_TOKENS) break;
  }
  whole.append(plain + code.slice(at));
  return whole;
}

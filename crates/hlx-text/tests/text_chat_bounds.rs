//! Chat templates and conversations of strangers: what would end the process, or take all memory or time, is an
//! error of one line.

use std::time::{Duration, Instant};

use hlx_text::{ChatTemplate, Message, Result};
use serde_json::{Value, json};

/// The stack of a thread of the standard library, and half of it as a margin.
const STACK: usize = 1 << 20;

fn talk() -> Vec<Message> {
    vec![Message::new("user", "hi"), Message::new("assistant", "ho")]
}

/// Compiles and renders on a thread with a small stack.
fn outcome(source: &str, messages: Vec<Message>) -> Result<String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let body = || ChatTemplate::new(source, "<s>", "</s>")?.render(&messages, true);
        let thread = thread.spawn_scoped(scope, body).expect("a thread");
        thread.join().expect("no panic")
    })
}

/// The line with which a template is refused, soon.
fn refused(source: &str) -> String {
    let begun = Instant::now();
    let shown = source.chars().take(80).collect::<String>();
    let Err(error) = outcome(source, talk()) else {
        panic!("{shown} is not refused");
    };
    let line = error.to_string();
    assert!(begun.elapsed() < Duration::from_secs(60), "{shown}: {line}");
    assert!(!line.contains('\n') && line.len() < 300, "{shown}: {line}");
    line
}

#[test]
fn a_long_chain_of_operators_does_not_overflow_the_stack() {
    let n = 20_000;
    let chains = [
        format!("{{{{ {} true }}}}", "not ".repeat(n)),
        format!("{{{{ 1{} }}}}", "+1".repeat(n)),
        format!("{{{{ 1{} }}}}", " ~ 1".repeat(n)),
        format!("{{{{ {}1 }}}}", "-".repeat(n)),
        format!("{{{{ a{} }}}}", ".b".repeat(n)),
        format!("{{{{ a{} }}}}", "[0]".repeat(n)),
        format!("{{{{ a{} }}}}", "()".repeat(n)),
        format!("{{{{ a{} }}}}", "|upper".repeat(n)),
        format!("{{{{ a{} }}}}", " is none".repeat(n)),
        format!("{{{{ 1{} }}}}", " < 1".repeat(n)),
        format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(n)),
        format!("{{{{ 1{} }}}}", " and 1 or 1".repeat(n)),
        format!("{{{{ 1{} }}}}", " in [1]".repeat(n)),
        format!("{{{{ 1{} }}}}", " ** 1".repeat(n)),
        format!("{{% set a{} = 1 %}}", ".b".repeat(n)),
        format!("{{% for a in b{} %}}{{% endfor %}}", "*2".repeat(n)),
        format!(
            "{{% filter upper{} %}}{{% endfilter %}}",
            "|upper".repeat(n)
        ),
        format!("{{{{ {}1{} }}}}", "(".repeat(n), ")".repeat(n)),
        format!("{{{{ {}1{} }}}}", "[".repeat(n), "]".repeat(n)),
        format!("{{{{ {}1{} }}}}", "{1:".repeat(n), "}".repeat(n)),
        format!("{{{{ {}1{} }}}}", "f(".repeat(n), ")".repeat(n)),
        format!("{{{{ {}1{} }}}}", "a[".repeat(n), "]".repeat(n)),
    ];
    for chain in chains {
        let line = refused(&chain);
        assert!(line.contains("400 operators"), "{line}");
    }
}

#[test]
fn many_blocks_within_each_other_do_not_overflow_the_stack() {
    let n = 10_000;
    let nests = [
        format!("{}{}", "{% if 1 %}".repeat(n), "{% endif %}".repeat(n)),
        format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(n)),
        format!(
            "{}{}",
            "{% for a in b %}".repeat(n),
            "{% endfor %}".repeat(n)
        ),
        format!("{}{}", "{% set a %}".repeat(n), "{% endset %}".repeat(n)),
        format!(
            "{}{}",
            "{% set a | replace(old=1) %}".repeat(n),
            "{% endset %}".repeat(n)
        ),
        format!(
            "{}{}",
            "{% with a = 1 %}".repeat(n),
            "{% endwith %}".repeat(n)
        ),
        format!(
            "{}{}",
            "{% filter upper %}".repeat(n),
            "{% endfilter %}".repeat(n)
        ),
        format!(
            "{}{}",
            "{% macro a() %}".repeat(n),
            "{% endmacro %}".repeat(n)
        ),
        format!(
            "{}{}",
            "{% call a() %}".repeat(n),
            "{% endcall %}".repeat(n)
        ),
        format!(
            "{}{}",
            "{% autoescape 1 %}".repeat(n),
            "{% endautoescape %}".repeat(n)
        ),
        format!(
            "{}{}",
            "{% if 1 %}{% else %}".repeat(n),
            "{% endif %}".repeat(n)
        ),
    ];
    for nest in nests {
        let line = refused(&nest);
        assert!(
            line.contains("100 blocks") || line.contains("bytes"),
            "{line}"
        );
    }
    // As deep as is allowed.
    let deep = format!("{}x{}", "{% if 1 %}".repeat(99), "{% endif %}".repeat(99));
    assert_eq!(outcome(&deep, talk()).expect("allowed"), "x");
    let chain = format!("{{{{ {}1 }}}}", "not ".repeat(399));
    assert_eq!(outcome(&chain, talk()).expect("allowed"), "False");
    let chain = format!("{{{{ 1{} }}}}", "+1".repeat(399));
    assert_eq!(outcome(&chain, talk()).expect("allowed"), "400");
    let elifs = format!("{{% if 0 %}}{}y{{% endif %}}", "{% elif 1 %}".repeat(98));
    assert_eq!(outcome(&elifs, talk()).expect("allowed"), "");
}

#[test]
fn a_template_of_megabytes_is_refused_by_its_length() {
    let line = refused(&"x".repeat(600 << 10));
    assert!(line.contains("614400 bytes; at most 524288"), "{line}");
    let tags = "{{ 1 }}".repeat(70_000);
    assert_eq!(outcome(&tags, talk()).expect("allowed").len(), 70_000);
}

#[test]
fn values_that_double_do_not_take_all_memory() {
    let forty = |step: &str, end: &str| {
        format!(
            "{{% set ns = namespace(x=[1]) %}}{{% for i in range(40) %}}{step}{{% endfor %}}{end}"
        )
    };
    let steps = [
        "{% set ns.x = ns.x + ns.x %}",
        "{% set ns.x = [ns.x, ns.x] %}",
        "{% set ns.x = (ns.x, ns.x) %}",
        "{% set ns.x = ns.x, ns.x %}",
        "{% set ns.x = {'a': ns.x, 'b': ns.x} %}",
        "{% set ns.x = dict(a=ns.x, b=ns.x) %}",
        "{% set ns.x = ns.x * 2 %}",
        "{% set ns.x = (ns.x | list) + (ns.x | reverse | list) %}",
        "{% set ns.x = ns.x | map('default', ns.x) | list + [ns.x] %}",
        "{% set ns.x = dict([(1, ns.x), (2, ns.x)]) %}",
        "{% set ns.x = [ns.x] | batch(2, ns.x) %}",
        "{% set ns.x = (ns.x | list | batch(1) | list) + ns.x %}",
        "{% set y = ns.x %}{% set ns.x = [y + y][0] %}",
        "{% set ns.x = [ns.x, ns.x] | sum(start=[]) %}",
    ];
    for step in steps {
        for end in [
            "{{ ns.x }}",
            "{{ ns.x | tojson }}",
            "{{ ns.x ~ 'a' }}",
            "{{ ns.x | length }}",
        ] {
            let source = forty(step, end);
            let line = refused(&source);
            assert!(
                line.contains("131072 elements") || line.contains("fuel"),
                "{line}"
            );
        }
    }
    let texts = [
        "{% set ns.x = ns.x ~ ns.x %}",
        "{% set ns.x = (ns.x | string) + (ns.x | string) %}",
        "{% set ns.x = (ns.x | string) * 2 %}",
        "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}",
        "{% set ns.x = [ns.x, ns.x] | join %}",
        "{% set ns.x = ''.join([ns.x | string, ns.x | string]) %}",
        "{% set ns.x = (ns.x | string).replace('1', '11') %}",
        "{% set ns.x = ns.x | string | replace('1', '11') %}",
        "{% set ns.x = '%s%s' | format(ns.x, ns.x) %}",
        "{% set ns.x = '{}{}'.format(ns.x, ns.x) %}",
        "{% set ns.x = ['a' ~ ns.x, 'b' ~ ns.x] | sort | join %}",
        "{% macro f(a) %}{{ a }}{{ a }}{% endmacro %}{% set ns.x = f(ns.x) %}",
        "{% set ns.x = ns.x | string | indent(1, true) ~ ns.x %}",
        "{% set ns.x = ns.x | tojson ~ ns.x %}",
    ];
    for step in texts {
        let line = refused(&forty(step, "{{ ns.x }}"));
        assert!(
            line.contains("bytes") || line.contains("fuel"),
            "{step}: {line}"
        );
    }
}

#[test]
fn widths_and_counts_are_bounded_before_anything_is_made() {
    let sources = [
        "{{ messages | tojson(indent=9999999999) }}",
        "{{ messages | tojson(true, 9999999999) }}",
        "{{ messages | map('tojson', true, 9999999999) | list }}",
        "{{ 'a' | indent(9999999999, true) }}",
        "{{ 'a' | indent(width=9999999999, first=true) }}",
        "{{ ('a\n' * 100000) | indent(1000, true) }}",
        "{{ 'a' * 9999999999 }}",
        "{{ [1] * 99999999 }}",
        "{{ ([1] * 99999999) | length }}",
        "{{ ([[1] * 99999999] * 99999999) | length }}",
        "{{ [[1] * 99999999] * 99999999 == [[1] * 99999999] * 99999998 }}",
        "{{ (1, 2) * 99999999 }}",
        "{{ '%9999999999d' | format(1) }}",
        "{{ '%.999999999f' | format(1.0) }}",
        "{{ '{:9999999999}'.format(1) }}",
        "{{ '{:.999999999f}'.format(1.0) }}",
        "{{ '{:>99999999999999999999999}'.format(1) }}",
        "{{ ('a' * 100000).replace('', 'b' * 1000) }}",
        "{{ ('a' * 100000).replace('a', 'b' * 1000) }}",
        "{{ ('a' * 1000000) | replace('a', 'b' * 1000) }}",
        "{{ ('b' * 1000).join(('a' * 100000) | list) }}",
        "{{ ('a' * 100000) | list | join('b' * 10000) }}",
        "{{ [1] | batch(9999999999, 'x') }}",
        "{{ [1] | slice(9999999999, 'x') }}",
        "{{ range(9999999999) }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ '%*d' % (9999999999, 1) }}",
        "{{ '%.*f' % (9999999999, 1) }}",
        "{{ '%.9999999999d' % 1 }}",
        "{{ ('%s' * 100000) % (('a' * 10000,) * 100000) }}",
        "{{ ('{0}' * 100000).format('a' * 10000) }}",
        "{{ ('{0:>1000}' * 100000).format('a') }}",
        "{{ 'a'.center(9999999999) }}",
        "{{ 'a'.ljust(9999999999) }}",
        "{{ 'a'.zfill(9999999999) }}",
        "{{ 'a\t'.expandtabs(9999999999) }}",
        "{{ ('\t' * 100000).expandtabs(1000) }}",
        "{{ 'a' | center(9999999999) }}",
        "{{ 'a' | indent('b' * 9999) }}",
        "{{ [1] | tojson(separators=('a' * 9999, ':')) }}",
        "{{ ([1] * 100000) | tojson(separators=('a' * 999, ':')) }}",
        "{{ ('&' * 16000000) | e | e | e | e }}",
        "{{ ('&' * 9000000) | urlencode }}",
        "{{ {'a': '&' * 9000000} | xmlattr }}",
        "{{ dict.fromkeys(range(100000), [1] * 1000) }}",
        "{{ strftime_now('%c' * 9999) }}",
        "{{ 2 ** 999999999 }}",
        "{{ 99999999999 ** 99999999999 }}",
        "{{ (messages[0].content * 9000000) ~ (messages[0].content * 9000000) }}",
        "{% autoescape true %}{{ '&' * 16000000 }}{% endautoescape %}",
        "{% macro f() %}{{ varargs }}{% endmacro %}{{ f(*(['a' * 1000] * 100000)) }}",
        "{{ ['a'] | sum(start='') }}",
        "{{ ('a' * 1000000) | list }}",
        "{{ ('a,' * 1000000).split(',') }}",
        "{{ ('a,' * 1000000) | split(',') }}",
        "{{ ('a\n' * 1000000).splitlines() }}",
        "{% set s = 'a' * 1000000 %}{% set l = [s] * 1000 %}{{ l }}",
        "{% for i in range(100000) %}{% for j in range(1000) %}aaaaaaaaaaaaaaaaaaaaaaaa{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{{ 'a' * 10000 }}{% endfor %}",
        "{{ [1, 2] | map('map', 'map', 'map', *(['map'] * 1000)) | list }}",
        "{{ debug() }}",
    ];
    for source in sources {
        refused(source);
    }
    let line = refused("{{ messages | tojson(indent=9999999999) }}");
    assert!(
        line.ends_with("tojson: a width of 9999999999; at most 1000 is allowed"),
        "{line}"
    );
}

#[test]
fn values_that_nest_or_hold_themselves_do_not_overflow_the_stack() {
    let steps = [
        "{% set ns.x = [ns.x] %}",
        "{% set ns.x = (ns.x,) %}",
        "{% set ns.x = {'a': ns.x} %}",
        "{% set ns.x = dict(a=ns.x) %}",
        "{% set ns.x = [ns.x] | list %}",
        "{% set ns.x = [ns.x] | batch(1) %}",
        "{% set ns.x = {'a': ns.x}.items() | list %}",
        "{% set ns.x = namespace(x=ns.x) %}",
    ];
    for step in steps {
        let source = format!(
            "{{% set ns = namespace(x=[1]) %}}{{% for i in range(99999) %}}{step}{{% endfor %}}{{{{ ns.x }}}}"
        );
        let line = refused(&source);
        assert!(
            line.contains("100 lists or maps") || line.contains("namespace"),
            "{line}"
        );
    }
    let lazy = [
        "{% set ns.x = ns.x[0:] %}",
        "{% set ns.x = ns.x | reverse %}",
        "{% set ns.x = ns.x * 1 %}",
        "{% set ns.x = ns.x + [] %}",
        "{% set ns.x = [] + ns.x %}",
        "{% set ns.x = {'a': 1}.keys() %}",
        "{% set ns.x = {'a': 1} | items %}",
    ];
    for step in lazy {
        let source = format!(
            "{{% set ns = namespace(x=[1]) %}}{{% for i in range(99999) %}}{step}{{% endfor %}}\
             {{{{ ns.x | list | length }}}}"
        );
        assert_eq!(outcome(&source, talk()).expect(step), "1", "{step}");
    }
    let cycles = [
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}",
        "{% set ns = namespace() %}{% set a, ns.x = 1, ns %}{{ ns }}",
        "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{{ a }}",
        "{% set ns = namespace() %}{{ [1, 2] | map('default', ns) | list }}{{ [ns] }}",
        "{% set ns = namespace() %}{% for i in [1] %}{% set ns.x = loop %}{% endfor %}{{ [ns.x] }}",
    ];
    for source in cycles {
        let line = refused(source);
        assert!(line.contains("cannot hold a namespace or `loop`"), "{line}");
    }
}

#[test]
fn macros_that_call_themselves_do_not_overflow_the_stack() {
    let sources = [
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(x) %}{{ f([x, x]) }}{% endmacro %}{{ f(1) }}",
        "{% macro f(x) %}{{ f(x[0:]) }}{% endmacro %}{{ f([1]) }}",
        "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
        "{% macro f() %}{% if 1 %}{% for a in [1] %}{{ [f()] | join }}{% endfor %}{% endif %}{% endmacro %}{{ f() }}",
        "{% for a in [1] recursive %}{{ loop([a]) }}{% endfor %}",
        "{% for a in [[1]] recursive %}{{ loop([[a, a]]) }}{% endfor %}",
    ];
    for source in sources {
        refused(source);
    }
}

#[test]
fn comparing_long_values_again_and_again_ends() {
    let loops = [
        "{% set a = 'a' * 9000000 %}{% set b = 'a' * 9000000 %}{% for i in range(99999) %}{% for j in range(99) %}\
         {% if a == b %}{% endif %}{% endfor %}{% endfor %}",
        "{% set a = ['a' * 9000000] %}{% set b = ['a' * 9000000] %}{% for i in range(99999) %}\
         {% for j in range(99) %}{% if a == b %}{% endif %}{% endfor %}{% endfor %}",
        "{% set a = 'a' * 9000000 %}{% set b = ['a' * 9000000] %}{% for i in range(99999) %}{% for j in range(99) %}\
         {% if a in b %}{% endif %}{% endfor %}{% endfor %}",
        "{% set a = 'a' * 9000000 %}{% set b = 'a' * 9000000 %}{% for i in range(99999) %}{% for j in range(99) %}\
         {% if a is eq b %}{% endif %}{% endfor %}{% endfor %}",
        "{% set a = 'a' * 9000000 %}{% for i in range(99999) %}{% for j in range(99) %}\
         {% if loop.changed(a) or loop.changed((a), 1) %}{% endif %}{% endfor %}{% endfor %}",
        "{% set a = 'a' * 9000000 %}{% set b = 'a' * 9000000 %}{% for i in range(99999) %}{% for j in range(99) %}\
         {% if 1 < 2 and b >= a %}{% endif %}{% endfor %}{% endfor %}",
    ];
    for source in loops {
        let line = refused(source);
        assert!(line.contains("fuel"), "{line}");
    }
}

#[test]
fn bounds_change_no_text() -> Result<()> {
    let cases = [
        ("{{ 'a' + 'b' * 2 + 'c' }}", "abbc"),
        ("{{ ('a' + 'b').upper() }}", "AB"),
        ("{{ ([1] + [2])[1] }}{{ [1 + 1][0] }}", "22"),
        (
            "{{ [1, [2, 3]][1][0] }}{{ {'a': 1 + 1}.a }}{{ {'a': 1 + 1}['a'] }}",
            "222",
        ),
        ("{{ -(1 + 2) }}{{ 2 - 1 + 3 * 2 ** 2 }}", "-313"),
        (
            "{{ 1 + 1 == 2 and 'a' + 'b' in ['ab'] }}{{ 1 < 1 + 1 < 3 }}",
            "TrueTrue",
        ),
        (
            "{{ 'x' not in ['a', 'b'] }}{{ not 'a' == 'b' }}{{ 'a'|upper == 'A' }}",
            "TrueTrueTrue",
        ),
        (
            "{{ 'a'|upper is eq 'A' }}{{ x is not defined }}{{ 3 is not eq 2 }}",
            "TrueTrueTrue",
        ),
        (
            "{%- set a, b = 1 + 1, 3 -%}{{ a * b }}{% set c = (a), (b) %}{{ c }}",
            "6(2, 3)",
        ),
        (
            "{% set ns = namespace(a=[1]) %}{% set ns.a = ns.a + [2] -%}{{ ns.a }}",
            "[1, 2]",
        ),
        (
            "{% set x | upper %}a{% endset %}{{ x }}{% filter upper | lower %}B{% endfilter %}",
            "Ab",
        ),
        (
            "{{ 'a' if 1 + 1 > 1 else 'b' }}{{ [1, 2, 3][1:] | last }}{{ 'abc'[::-1] }}",
            "a3cba",
        ),
        (
            "{% for k, v in {'a': 1 + 1}.items() %}{{ k }}{{ v }}{% endfor %}",
            "a2",
        ),
        (
            "{% macro m(a, b=[1 + 1]) %}{{ a }}{{ b }}{% endmacro %}{{ m('x') }}{{ m(*['y'], b=3) }}",
            "x[2]y3",
        ),
        (
            "{% set x = [1] + [2] %}{{ x is sequence }}{{ x is iterable }}{{ x | length }}",
            "TrueTrue2",
        ),
        (
            "{{ {'b': 1, 'a': [1, {'c': none}]} | tojson }}",
            r#"{"b": 1, "a": [1, {"c": null}]}"#,
        ),
        (
            "{{ [1 + 1, {'a': 1}] | tojson(indent=2) }}",
            "[\n  2,\n  {\n    \"a\": 1\n  }\n]",
        ),
        (
            "{{ 'a\nb' | indent(2) }}{{ 'a\nb' | indent(width=1, first=true) }}",
            "a\n  b a\n b",
        ),
        (
            "{{ [1, 2, 3] | select('odd') | list }}{{ messages | map(attribute='role') | join(',') }}",
            "[1, 3]user,assistant",
        ),
        (
            "{{ messages | selectattr('role', 'eq', 'user') | list | length }}{{ [1, 2] | sum }}",
            "13",
        ),
        (
            "{{ '{}-{:>4}'.format('a', 'b') }}{{ '%s' % 1 if false else '%s' | format(1) }}",
            "a-   b1",
        ),
        (
            "{% for a in [1, 1, 2] %}{{ loop.changed(a) }}{% endfor %}\
             {% for a in [1, 1, 2] %}{{ loop.changed(a, [a]) }}{% endfor %}",
            "TrueFalseTrueTrueFalseTrue",
        ),
    ];
    for (source, text) in cases {
        assert_eq!(outcome(source, talk())?, text, "{source}");
    }
    Ok(())
}

/// Many sums in one tag, as templates write them.
#[test]
fn a_chain_of_a_hundred_texts_is_allowed() -> Result<()> {
    let chain = format!(
        "{{{{ 'a'{} }}}}",
        " + messages[0].content + '\\n'".repeat(60)
    );
    assert_eq!(outcome(&chain, talk())?, format!("a{}", "hi\n".repeat(60)));
    Ok(())
}

fn message(content: &Value) -> Message {
    serde_json::from_value(json!({"role": "user", "content": content})).expect("a message")
}

#[test]
fn a_hostile_conversation_is_refused() -> Result<()> {
    let deep = (0..110).fold(json!(1), |inner, _| json!([inner]));
    let wide = json!(vec![0; 200_000]);
    let long = json!("x".repeat(17 << 20));
    let cases = [
        (deep, "100 lists or maps"),
        (wide, "131072 elements"),
        (long, "16777216 bytes"),
    ];
    for (content, bound) in cases {
        let template = ChatTemplate::new("{{ messages | tojson }}", "", "")?;
        let error = template
            .render(&[message(&content)], false)
            .expect_err("refused");
        assert!(error.to_string().contains(bound), "{error}");
    }
    // A message cannot state by itself what is trained on.
    let blocks =
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
    let template = ChatTemplate::new(blocks, "", "")?;
    let forged = [message(&json!("x\u{10fffd}y\u{10fffc}"))];
    let error = template.render_for_training(&forged).expect_err("refused");
    assert!(error.to_string().contains("U+10FFFC"), "{error}");
    let (text, answers) = template.render_for_training(&[message(&json!("x"))])?;
    assert!(text == "x" && answers.first() == Some(&(0..1)));
    // What a message says is text, no template.
    let text = outcome(
        "{{ messages[0].content }}",
        vec![message(&json!("{{ 1 + 1 }}{% for %}"))],
    );
    assert_eq!(text?, "{{ 1 + 1 }}{% for %}");
    Ok(())
}

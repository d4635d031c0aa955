//! Chat templates that aim at the engine's weak places: numbers at the ends of their range, recursion, values that hold
//! themselves, and work that is not paid for. Each ends soon, on a small stack, with a text or an error of one line.

use std::time::{Duration, Instant};

use hlx_text::{ChatTemplate, Message};

/// Half of the stack of a thread of the standard library.
const STACK: usize = 1 << 20;

/// What a template gives: its text, or the line that refuses it.
fn outcome(source: &str) -> Result<String, String> {
    let begun = Instant::now();
    let talk = [Message::new("user", "hi")];
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let body = || ChatTemplate::new(source, "<s>", "</s>")?.render(&talk, true);
        let thread = thread.spawn_scoped(scope, body).expect("a thread");
        thread.join().expect("no panic")
    });
    let place = source.chars().take(200).collect::<String>();
    assert!(begun.elapsed() < Duration::from_secs(60), "{place}");
    done.map_err(|error| {
        let line = error.to_string();
        assert!(
            !line.contains('\n') && line.chars().count() < 600,
            "{place}: {line}"
        );
        assert!(!line.contains("engine failed"), "{place}: {line}");
        line
    })
}

fn refused(source: &str, reason: &str) {
    let place = source.chars().take(200).collect::<String>();
    let line = outcome(source).expect_err(&place);
    assert!(line.contains(reason), "{place}: {line}");
}

/// What a template does without end, after what it does once.
fn again(before: &str, body: &str) -> String {
    format!(
        "{before}{{% for i in range(99999) %}}{{% for j in range(99) %}}{body}{{% endfor %}}{{% endfor %}}"
    )
}

#[test]
fn numbers_at_the_ends_of_their_range_are_exact_or_refused() {
    let least = "{% set least = -(2 ** 126) * 2 %}{% set most = 2 ** 126 - 1 + 2 ** 126 %}";
    let exact = [
        ("{{ least }}", "-170141183460469231731687303715884105728"),
        ("{{ -most }}", "-170141183460469231731687303715884105727"),
        (
            "{{ least | round(-2) }}",
            "-170141183460469231731687303715884105700",
        ),
        ("{{ 25 | round(-1) }}{{ -25 | round(-1) }}", "20-20"),
        ("{{ [1, 2][least:most] }}", "[1, 2]"),
        ("{{ [1, 2, 3][::least] }}{{ 'abc'[most::-1] }}", "[3]cba"),
        (
            "{{ [1][least] is defined }}{{ 'ab'[most] is defined }}",
            "FalseFalse",
        ),
        (
            "{{ [1].index(1, least) }}{{ 'a'.find('a', least, most) }}",
            "00",
        ),
        ("{{ 'a' * least }}{{ [1] * least }}", "[]"),
        ("{{ 'abc'.split('b', least) }}", "['a', 'c']"),
        ("{{ least % -1 }}", "0"),
        ("{{ range(0, 10, 5)[::-1] | list }}", "[5, 0]"),
        (
            "{{ range(0) == range(9, 2) }}{{ range(3) == range(0, 3, 7) }}{{ range(0, 3, 7) == range(0, 1) }}",
            "TrueFalseTrue",
        ),
    ];
    for (source, text) in exact {
        let found = outcome(&format!("{least}{source}"));
        assert_eq!(found.as_deref(), Ok(text), "{source}");
    }
    let beyond = [
        "{{ -least }}",
        "{{ least | abs }}",
        "{{ most | round(-38) }}",
        "{{ 2 ** least }}",
        "{{ least // -1 }}",
        "{{ least - 1 }}",
        "{{ most * most }}",
        "{{ range(10)[::most] }}",
        "{{ range(10)[::least] }}",
    ];
    for source in beyond {
        let line = outcome(&format!("{least}{source}")).expect_err(source);
        let bits = ["128 bits", "63 bits"];
        assert!(bits.iter().any(|bits| line.contains(bits)), "{line}");
    }
    refused("{{ '%*d' % (-(2 ** 126) * 2, 1) }}", "at most 1000");
}

#[test]
fn blocks_within_macros_that_call_themselves_do_not_overflow_the_stack() {
    let blocks = [
        ("{% if 1 %}", "{% endif %}"),
        ("{% for a in [1] %}", "{% endfor %}"),
        ("{% set x %}", "{% endset %}"),
        ("{% with b = 1 %}", "{% endwith %}"),
        ("{% filter upper %}", "{% endfilter %}"),
        ("{% autoescape 1 %}", "{% endautoescape %}"),
        ("{% generation %}", "{% endgeneration %}"),
        ("{% call g() %}", "{% endcall %}"),
    ];
    for (begin, end) in blocks {
        let (begin, end) = (begin.repeat(97), end.repeat(97));
        let calls = [
            "{{ f() }}".to_owned(),
            deep("f()", 97),
            deep_calls("f()", 97),
        ];
        for call in calls {
            let body = format!("{begin}{call}{end}");
            let g = "{% macro g() %}{{ caller() }}{% endmacro %}";
            refused(
                &format!("{g}{{% macro f() %}}{body}{{% endmacro %}}{{{{ f() }}}}"),
                "recursion",
            );
            let call = call.replace("f()", "l([1])");
            refused(
                &format!(
                    "{g}{{% for a in [1] recursive %}}{{% set l = loop %}}{}{call}{}{{% endfor %}}",
                    &begin[..begin.len() / 97 * 96],
                    &end[..end.len() / 97 * 96]
                ),
                "recursion",
            );
        }
    }
}

/// A list of lists around an expression.
fn deep(inner: &str, n: usize) -> String {
    format!("{{{{ {}{inner}{} }}}}", "[".repeat(n), "]".repeat(n))
}

/// Calls around an expression.
fn deep_calls(inner: &str, n: usize) -> String {
    format!("{{{{ {}{inner}{} }}}}", "dict(a=".repeat(n), ")".repeat(n))
}

#[test]
fn brackets_within_blocks_do_not_overflow_the_stack() {
    let nests = [
        ("(", ")"),
        ("[", "]"),
        ("[(", ")]"),
        ("f(a[", "])"),
        ("{1: ", "}"),
        ("1 | default(", ")"),
        ("-(", ")"),
        ("1 is eq(", ")"),
        ("1 if 1 else ", ""),
    ];
    for (begin, end) in nests {
        let nested = |n: usize| {
            format!(
                "{}{{{{ {}1{} }}}}{}",
                "{% if 1 %}".repeat(99),
                begin.repeat(n),
                end.repeat(n),
                "{% endif %}".repeat(99)
            )
        };
        refused(&nested(130), "100 brackets");
        // As many as are allowed.
        _ = outcome(&nested(98 / begin.matches(['(', '[']).count().max(1)));
    }
}

#[test]
fn values_that_hold_others_unseen_are_measured() {
    let steps = [
        "{% set ns.x = [{}] | groupby('x', default=[ns.x]) %}",
        "{% set ns.x = [{}] | groupby('x', default=[ns.x, ns.x]) %}",
        "{% set ns.x = ([{}] | groupby('x', default=[ns.x]))[0] %}",
        "{% set ns.x = {'a': ns.x}.get %}",
        "{% set ns.x = [ns.x].index %}",
    ];
    for step in steps {
        let source = again("{% set ns = namespace(x=1) %}", step) + "{{ [ns.x] | list | length }}";
        let line = outcome(&source).expect_err(step);
        let bounds = ["100 lists", "131072 elements"];
        assert!(bounds.iter().any(|bound| line.contains(bound)), "{line}");
    }
    let unseen = [
        "{% set ns.x = cycler(ns.x).next %}",
        "{% for a in [ns.x] %}{% set ns.x = loop.cycle %}{% endfor %}",
        "{% set ns.x = [{}] | groupby('x', default=ns) %}",
        "{% set ns.x = {'a': cycler(1).next} %}",
        "{% set ns.x = [1] | batch(2, cycler(1).reset) | list %}",
    ];
    for step in unseen {
        let source = again("{% set ns = namespace(x=1) %}", step) + "{{ ns }}";
        refused(&source, "cannot hold a namespace or `loop`");
    }
}

#[test]
fn lists_without_an_order_are_refused_and_others_are_sorted_as_python_does() {
    let list = |item: &str| {
        format!(
            "{{% set ns = namespace(l=[]) %}}{{% for i in range(300) %}}{{% set ns.l = ns.l + [{item}] %}}{{% endfor %}}"
        )
    };
    let nan = list("'nan' | float if i % 3 == 0 else i * 7919 % 501");
    refused(&(nan.clone() + "{{ ns.l | sort }}"), "nan has no place");
    let json = list("('nan' | float if i % 3 == 0 else i * 7919 % 501, 1)");
    refused(
        &(json + "{{ dict(ns.l) | tojson(sort_keys=true) }}"),
        "nan has no place",
    );
    let mixed = list("'a' if i % 7 == 0 else i * 7919 % 501");
    refused(&(mixed + "{{ ns.l | sort }}"), "have no order");
    let sorted =
        "{% for i in ns.l | sort(attribute=0) %}{{ i[1] if loop.index > 297 }};{% endfor %}";
    let found = outcome(&(list("(i % 2, i)") + sorted)).expect("sorted");
    assert!(found.ends_with(";295;297;299;"), "{found}");
    let sorted =
        "{% for i in ns.l | sort(true, attribute=0) %}{{ i[1] if loop.index > 297 }};{% endfor %}";
    let found = outcome(&(list("(i % 2, i)") + sorted)).expect("sorted");
    assert!(found.ends_with(";294;296;298;"), "{found}");
}

#[test]
fn work_on_long_values_is_paid_for() {
    let text = "{% set s = 'a' * 16000000 %}";
    let digits = "{% set s = '1' * 16000000 %}";
    let tuple = "{% set t = (1,) * 100000 %}";
    let loops = [
        (text, "{% set x = s | first %}"),
        (text, "{% set x = s | length %}"),
        (text, "{% if s %}{% endif %}"),
        (text, "{% set x = s[-1] %}"),
        (text, "{% set x = s[:1] %}"),
        (text, "{% set x = s is sameas s %}"),
        (text, "{% set x = {}[s] %}"),
        (text, "{% set x = {}.get(s) %}"),
        (text, "{% set x = 1 | attr(s) %}"),
        (text, "{% set x = s | int %}"),
        (text, "{% set x = [s] | unique %}"),
        (digits, "{% set x = s is lower %}"),
        (digits, "{% set x = s | float %}"),
        ("{% set s = 'a' * 130000 %}", "{% set x = s | min %}"),
        (tuple, "{% set x = {}[t] %}"),
        (tuple, "{% set x = [] | join(t) %}"),
        (
            "{% set t = (1,) * 100000 %}{% set m = {t: 1} %}",
            "{% set x = m[1] is defined %}",
        ),
        ("{% set r = range(100000) %}", "{% set x = range(0) == r %}"),
        (
            "{% set t = ('b',) * 100000 %}",
            "{% set x = 'a'.startswith(t) %}",
        ),
        ("{% set t = [(1, 2)] * 30000 %}", "{% set x = dict(t) %}"),
        (
            "{% set t = [(1, 2)] * 30000 %}",
            "{% set x = t | urlencode %}",
        ),
        ("", "{% set x = {}.fromkeys(range(60000)) %}"),
        (
            "{% set d = {}.fromkeys(range(60000) | map('string') | list) %}",
            "{% set x = d | xmlattr %}",
        ),
        (
            "{% set t = (1.0,) * 1000 %}",
            "{% set x = '%.900f' * 1000 % t %}",
        ),
        ("", "{% set x = strftime_now('%c' * 400) %}"),
        ("", "{% macro m() %}{% endmacro %}"),
    ];
    for (before, body) in loops {
        refused(&again(before, body), "fuel");
    }
    let bounded = [
        ("{{ ('a' * 16000000) | list }}", "131072 elements"),
        (
            "{% for c in 'a' * 16000000 %}{% break %}{% endfor %}",
            "131072 elements",
        ),
        ("{% set a, b = 'a' * 16000000 %}", "131072 elements"),
        ("{{ (' a' * 8000000).split() }}", "131072 elements"),
        ("{{ ('\n' * 16000000).splitlines() }}", "131072 elements"),
        ("{{ ('%.1000f' * 100000) % ((1.0,) * 100000) }}", "bytes"),
        (
            "{{ [{}] | map(attribute='a.' * 100000, default={}) | list }}",
            "at most 1000",
        ),
        (
            "{{ namespace({}.fromkeys(range(60000) | map('string') | list)) }}",
            "1000 names",
        ),
    ];
    for (source, bound) in bounded {
        refused(source, bound);
    }
    // Characters that are stripped are looked up, and a sigma does not read the whole text before it.
    let linear = [
        ("{{ ('a' * 8000000).strip('b' * 8000000 ~ 'a') }}", ""),
        ("{{ ('a' * 8000000) | trim('b' * 8000000 ~ 'a') }}", ""),
        ("{{ ('aΣ' * 2000000).title() | length }}", "4000000"),
        (
            "{{ 'ΑΣ ΑΣΑ Σ Α.Σ. aΣ’b aʰΣ x́Σ, aʰʰΣ. a:ΑΣ.'.title() }}",
            "Ας Ασα Σ Α.Σ. Aσ’B Aʰς X́Σ, Aʰʰς. A:Ας.",
        ),
    ];
    for (source, text) in linear {
        assert_eq!(outcome(source).as_deref(), Ok(text), "{source}");
    }
}

#[test]
fn many_names_are_paid_for() {
    let numbered =
        |n: usize, part: &dyn Fn(usize) -> String| (0..n).map(part).collect::<Vec<_>>().join("");
    let sets = numbered(20_000, &|i| format!("{{% set a{i}=1 %}}"));
    let pairs = numbered(40_000, &|i| format!("{i}:1,"));
    let named = numbered(40_000, &|i| format!("a{i}=1,"));
    refused(&again("", &sets), "fuel");
    refused(&again(&sets, "{% if zz %}{% endif %}"), "fuel");
    refused(&again("", &format!("{{% set x = {{{pairs}}} %}}")), "fuel");
    refused(
        &again("", &format!("{{% set x = dict({named}) %}}")),
        "fuel",
    );
    let parameters = numbered(200, &|i| format!("a{i}, ")) + "b";
    refused(
        &format!("{{% macro m({parameters}) %}}{{% endmacro %}}"),
        "100 parameters",
    );
    let keywords = "{% macro m(a) %}{{ kwargs | length }}{% endmacro %}\
                    {% set d = {}.fromkeys(range(60000) | map('string') | list) %}";
    refused(&again(keywords, "{{ m(**d) }}"), "fuel");
}

#[test]
fn long_names_and_numbers_are_cut_in_errors() {
    let n = 400_000;
    let sources = [
        format!("{{{{ {} }}}}", "1".repeat(n)),
        format!("{{{{ x | {} }}}}", "a".repeat(n)),
        format!("{{{{ 1 is {} }}}}", "a".repeat(n)),
        format!("{{{{ {}() }}}}", "a".repeat(900)),
        format!("{{{{ [].{}() }}}}", "a".repeat(900)),
        format!("{{{{ {{}}['{}'].c }}}}", "é".repeat(n / 2)),
        format!("{{{{ {{}}[('{}', 1)].c }}}}", "a".repeat(n)),
        "{{ {}['a\nb'].c }}".to_owned(),
        "{{ 1 | attr('a' * 9000000) | upper }}{{ (1 | attr('a' * 9000000)).b }}".to_owned(),
        format!("{{{{ '%({})s' % {{}} }}}}", "a".repeat(n)),
        format!("{{{{ '{{{}}}'.format() }}}}", "a".repeat(n)),
        format!("{{{{ '%' | format(1) ~ [1] | map('{}') }}}}", "a".repeat(n)),
        format!("{{{{ dict(a=1).pop('{}') }}}}", "a".repeat(n)),
        format!("{{{{ 1 | default({}=1) }}}}", "a".repeat(900)),
        "{{ raise_exception('a\nb' * 1000000) }}".to_owned(),
        "{{ raise_exception('x' * 9000000) }}".to_owned(),
    ];
    for source in sources {
        _ = outcome(&source).expect_err("refused");
    }
}

#[test]
fn conversations_of_thousands_of_messages_are_laid_out() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/chat_shapes");
    let talk: Vec<Message> = (0..4000)
        .map(|at| {
            let role = if at % 2 == 0 { "user" } else { "assistant" };
            Message::new(
                role,
                &"Some words that are said in a turn, again and again.\n".repeat(10),
            )
        })
        .collect();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        let source = std::fs::read_to_string(&path).expect("a template");
        let text = ChatTemplate::new(&source, "<s>", "</s>")
            .expect("a template")
            .render(&talk, false);
        assert!(text.is_ok_and(|text| text.len() > 2 << 20), "{path:?}");
    }
}

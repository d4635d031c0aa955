//! The words that phrases are made of, and words that nobody has seen before.

use super::draw::Draw;

/// Things, which texts, handles and lists name.
#[rustfmt::skip]
const THINGS: &[&str] = &[
    "account", "apple", "archive", "arrow", "backup", "badge", "bag", "balance", "ball", "basket",
    "battery", "bell", "bicycle", "board", "boat", "book", "border", "bottle", "box", "bread",
    "bridge", "brush", "bucket", "button", "cable", "calendar", "camera", "candle", "card", "carpet",
    "chair", "channel", "chart", "cheese", "clock", "cloud", "coat", "coin", "column", "copy",
    "corner", "cotton", "counter", "cursor", "curtain", "desk", "diary", "document", "door", "draft",
    "drawing", "drum", "engine", "entry", "event", "fence", "field", "figure", "file", "filter",
    "finger", "flag", "floor", "flower", "folder", "forest", "form", "fountain", "frame", "garden",
    "gate", "glass", "glove", "grass", "group", "guitar", "hammer", "handle", "harbour", "hat",
    "header", "helmet", "history", "honey", "house", "index", "invoice", "island", "jacket", "journal",
    "kettle", "key", "keyboard", "kitchen", "knife", "ladder", "lamp", "layer", "leaf", "lemon",
    "letter", "level", "light", "line", "lock", "log", "machine", "mail", "map", "market",
    "melon", "memory", "menu", "message", "metal", "milk", "mirror", "model", "moon", "motor",
    "mountain", "movie", "needle", "note", "number", "ocean", "office", "onion", "order", "oven",
    "page", "paint", "paper", "parcel", "path", "pencil", "photo", "piano", "picture", "pillow",
    "plan", "plate", "player", "pocket", "poem", "pool", "printer", "profile", "project", "queue",
    "rain", "record", "report", "ribbon", "river", "road", "robot", "roof", "room", "root",
    "row", "sail", "salt", "sample", "sand", "scale", "screen", "server", "shelf", "shirt",
    "signal", "silver", "sketch", "snow", "sofa", "song", "soup", "speaker", "spoon", "spring",
    "square", "stairs", "star", "station", "status", "stone", "storm", "story", "street", "sugar",
    "summary", "sun", "table", "tablet", "target", "task", "tea", "teapot", "tent", "ticket",
    "timer", "title", "token", "tool", "tower", "track", "train", "tree", "tunnel", "umbrella",
    "user", "valley", "vase", "version", "video", "village", "violin", "volume", "wagon", "wall",
    "water", "weather", "wheel", "window", "winter", "wood", "word", "yard", "zebra", "zone",
];

/// What things are like.
#[rustfmt::skip]
const QUALITIES: &[&str] = &[
    "big", "black", "blue", "bright", "broken", "brown", "clean", "cold", "dark", "deep",
    "dry", "early", "empty", "fast", "final", "fine", "first", "flat", "fresh", "front",
    "full", "gold", "good", "green", "grey", "happy", "hard", "heavy", "high", "hot",
    "inner", "large", "last", "late", "left", "long", "loud", "low", "main", "narrow",
    "new", "next", "old", "orange", "outer", "pink", "plain", "quick", "quiet", "red",
    "rich", "right", "rough", "round", "second", "sharp", "short", "small", "smooth", "soft",
    "strong", "sweet", "tall", "thick", "thin", "tiny", "upper", "warm", "wet", "white",
    "wide", "wild", "yellow", "young",
];

/// People.
#[rustfmt::skip]
const PEOPLE: &[&str] = &[
    "ada", "alan", "alma", "amir", "anna", "boris", "carl", "chen", "clara", "david",
    "diana", "edith", "elena", "emil", "emma", "farid", "felix", "fiona", "frank", "grace",
    "hana", "hugo", "ida", "igor", "irene", "ivan", "jonas", "julia", "karim", "kenji",
    "lara", "leo", "lina", "lucas", "maria", "max", "mei", "milan", "mina", "nadia",
    "nina", "noah", "nora", "olga", "omar", "oscar", "paul", "petra", "rana", "rosa",
    "ruth", "samir", "sara", "simon", "sofia", "tara", "theo", "tomas", "vera", "yuki",
];

/// Syllables of invented words: a beginning, a middle and an end each.
const BEGINNINGS: &[&str] = &[
    "b", "br", "c", "ch", "cl", "d", "dr", "f", "fl", "g", "gl", "gr", "h", "j", "k", "kr", "l",
    "m", "n", "p", "pl", "pr", "qu", "r", "s", "sh", "sk", "sl", "sn", "sp", "st", "t", "th", "tr",
    "v", "w", "x", "y", "z", "",
];
const MIDDLES: &[&str] = &[
    "a", "e", "i", "o", "u", "ai", "ea", "ee", "ia", "oo", "ou", "y",
];
const ENDS: &[&str] = &[
    "", "", "", "b", "ck", "d", "f", "g", "l", "ll", "m", "n", "nd", "ng", "p", "r", "rk", "s",
    "st", "t", "v", "x", "zz",
];

/// Words that syllables may make and phrases are built of: as a thing's name they would be misread.
#[rustfmt::skip]
const TAKEN: &[&str] = &[
    "and", "as", "at", "be", "by", "for", "from", "in", "is", "my", "no", "not", "of", "off", "on",
    "one", "or", "out", "over", "six", "ten", "than", "the", "to", "two", "who", "with", "yes",
];

/// A word of one to three syllables that is in no list, so that a model has to spell it.
pub(super) fn invented(draw: &mut Draw) -> String {
    let syllables = 1 + draw.below(3);
    let mut word = String::new();
    for _ in 0..syllables {
        for part in [BEGINNINGS, MIDDLES, ENDS] {
            word.push_str(draw.one(part));
        }
    }
    // A single letter would read as the name of a letter.
    if word.len() < 2 || TAKEN.contains(&word.as_str()) {
        word.push('x');
    }
    word
}

/// A thing, at times an invented one.
pub(super) fn thing(draw: &mut Draw) -> String {
    if draw.percent(30) {
        invented(draw)
    } else {
        draw.one(THINGS).to_owned()
    }
}

/// A thing, at times with a quality in front.
pub(super) fn thing_with_quality(draw: &mut Draw) -> Vec<String> {
    let mut words = Vec::new();
    if draw.percent(35) {
        words.push(draw.one(QUALITIES).to_owned());
    }
    words.push(thing(draw));
    words
}

/// A name in lower case, at times an invented one.
pub(super) fn person(draw: &mut Draw) -> String {
    if draw.percent(35) {
        invented(draw)
    } else {
        draw.one(PEOPLE).to_owned()
    }
}

/// With a capital letter.
pub(super) fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_ascii_uppercase().to_string() + letters.as_str()
    })
}

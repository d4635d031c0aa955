//! What there is to tell of texts while they grow.

use std::collections::BTreeSet;

use anyhow::Result;

/// What there is to tell of a text.
#[derive(Debug)]
pub enum News<'a> {
    /// Its next bytes.
    Bytes(&'a [u8]),
    /// It has ended, and is all of these bytes; or it cannot be made.
    End(Result<Vec<u8>>),
}

/// Gets what there is to tell of the text of a number.
pub type Tell<'a> = &'a mut dyn FnMut(usize, News<'_>) -> Result<()>;

/// The texts that `write` writes after prompts: for each prompt its text, or why there is none. A prompt that is
/// none, and a text that fails, leave the others as they are.
pub fn each_text(
    prompts: Vec<Result<Vec<u32>>>,
    write: impl FnOnce(&[Vec<u32>], Tell<'_>) -> Result<()>,
) -> Vec<Result<String, String>> {
    let reason = |error: &anyhow::Error| format!("{error:#}");
    let (mut texts, mut good) = (Vec::new(), Vec::new());
    for (number, prompt) in prompts.into_iter().enumerate() {
        texts.push(Err(match prompt {
            Err(error) => reason(&error),
            Ok(ids) => {
                good.push((number, ids));
                String::new()
            }
        }));
    }
    let (numbers, good): (Vec<usize>, Vec<Vec<u32>>) = good.into_iter().unzip();
    let mut open: BTreeSet<usize> = numbers.iter().copied().collect();
    let written = match good.is_empty() {
        true => Ok(()),
        false => write(&good, &mut |number, news| {
            if let News::End(text) = news {
                let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
                texts[numbers[number]] = text.map_err(|error| reason(&error));
                open.remove(&numbers[number]);
            }
            Ok(())
        }),
    };
    if let Err(error) = written {
        for number in open {
            texts[number] = Err(reason(&error));
        }
    }
    texts
}

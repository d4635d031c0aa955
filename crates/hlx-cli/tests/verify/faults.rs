//! Faults of the hardware in a run: the first loss or tensor that shows one is named.

use hlx_core::Device;
use hlx_train::verify::VerifyOptions;

use super::common::Scratch;
use super::{cpu, verify};

/// Flips a bit of a parameter's element after a step, as a fault of the hardware would.
struct Fault {
    device: Device,
    element: hlx_core::Buffer,
    step: u64,
}

impl hlx_train::train::Observer for Fault {
    fn step(&mut self, step: u64, _total_steps: u64) {
        if step == self.step {
            let word = self
                .device
                .download_words(&self.element)
                .expect("downloads")[0];
            self.device
                .upload_words(&self.element, &[word ^ (1 << 20)])
                .expect("uploads");
        }
    }
}

/// Trains with a fault after step 2, in records of the steps 0, 5 and 6, and returns what is
/// found of it.
fn faulty(tensor: &str, element: usize) -> hlx_train::verify::Difference {
    let place = Scratch::new("fault");
    let device = cpu();
    let mut trainer = place.trainer(&device, "run", &["train.log_every=5"]);
    let parameter = trainer.weights().get(tensor).expect("a parameter");
    let buffer = parameter.tensor().expect("built").buffer().expect("dense");
    let mut fault = Fault {
        element: buffer.slice(element, 1).expect("an element"),
        device,
        step: 2,
    };
    trainer.run(&mut fault).expect("trains");
    let report = verify(&cpu(), &place, &VerifyOptions::default());
    assert_eq!((report.equal_to, report.to), (Some(0), 6));
    report.difference.expect("differs")
}

#[test]
fn a_fault_between_two_records_is_named_by_the_first_loss_that_shows_it() {
    // The row of `4`, a byte of many outputs.
    let found = faulty("output.weight", 16 * usize::from(b'4'));
    assert_eq!((found.step, found.record), (3, 5));
    let names: Vec<&str> = found
        .mismatches
        .iter()
        .map(|found| found.what.as_str())
        .collect();
    let expected = [
        "loss of step 3",
        "gradient norm of step 3",
        "parameters",
        "optimizer",
    ];
    assert_eq!(names, expected);
    // The whole model has learnt from it since; its first tensor is named.
    assert_eq!(
        found.tensor.expect("a tensor").name,
        "token_embedding.weight"
    );
}

#[test]
fn a_fault_that_no_loss_shows_is_named_by_its_tensor() {
    // The row of a byte that the corpus does not hold.
    let found = faulty("token_embedding.weight", 255 * 16);
    assert_eq!((found.step, found.record), (5, 5));
    let names: Vec<&str> = found
        .mismatches
        .iter()
        .map(|found| found.what.as_str())
        .collect();
    assert_eq!(names, ["parameters"]);
    let tensor = found.tensor.expect("a tensor");
    assert_eq!(tensor.name, "token_embedding.weight");
    assert!(
        tensor.element.is_none(),
        "no checkpoint holds the values of step 5"
    );
}

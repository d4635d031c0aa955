//! The frame: the vectors of a thread, the places of their elements, loads and stores.

use hlx_spirv::join::Id;
use hlx_spirv::spirv::Op;

use super::super::plan::Load;
use super::{GROUP_THREADS, Writer};
use crate::convert::Form;
use crate::layout::{Access, in_quads};

/// Four neighbours that a thread computes.
pub(super) struct Quad {
    /// Its number.
    pub index: Id,
    /// The number of its elements: 4 but in the last one.
    pub n: Id,
    /// The indexes of its elements; the last one's for those that are not there.
    elements: [Id; 4],
    /// Where they lie, if a load has to compute that.
    rows: Option<Vec<Row>>,
}

/// Where an element lies: its index in each dimension, innermost first.
struct Row(Vec<Id>);

impl Writer<'_> {
    /// Writes `main`, and returns the module's words.
    pub fn write(mut self) -> Vec<u32> {
        let vectors = self.plan.cut.vectors;
        let [three, two, threads] = [3, 2, GROUP_THREADS as u32].map(|x| self.constant(x));
        let mut quads = self.op(Op::ShiftRightLogical, self.count, two);
        if !self.plan.cut.whole {
            let zero = self.constant(0);
            let rest = self.op(Op::BitwiseAnd, self.count, three);
            let some = self.compare(Op::INotEqual, rest, zero);
            let one = self.constant(1);
            let more = self.select(some, one, zero);
            quads = self.op(Op::IAdd, quads, more);
        }
        let group = self.group();
        let all = match vectors {
            1 => threads,
            _ => self.constant(GROUP_THREADS as u32 * vectors),
        };
        let begin = self.op(Op::IMul, group, all);
        let thread = self.thread();
        let first = self.op(Op::IAdd, begin, thread);
        let inside = self.compare(Op::ULessThan, first, quads);
        self.when(inside, |writer| writer.vectors(first, quads));
        self.a.finish(GROUP_THREADS as u32)
    }

    /// Writes what runs where a condition holds.
    fn when(&mut self, condition: Id, body: impl FnOnce(&mut Self)) {
        let (inside, behind) = (self.a.new_id(), self.a.new_id());
        self.a.branch_if(condition, inside, behind);
        self.a.begin(inside);
        body(self);
        self.a.branch(behind);
        self.a.begin(behind);
    }

    /// Writes what runs where a condition holds, and what runs elsewhere.
    fn either(&mut self, condition: Id, yes: impl FnOnce(&mut Self), no: impl FnOnce(&mut Self)) {
        let [first, second, behind] = [0; 3].map(|_| self.a.new_id());
        self.a.branch_either(condition, [first, second], behind);
        self.a.begin(first);
        yes(self);
        self.a.branch(behind);
        self.a.begin(second);
        no(self);
        self.a.branch(behind);
        self.a.begin(behind);
    }

    /// Loads all vectors of a thread, then computes and stores each.
    fn vectors(&mut self, first: Id, quads: Id) {
        let mut loaded = Vec::new();
        for vector in 0..self.plan.cut.vectors {
            let mut index = first;
            if vector > 0 {
                let ahead = self.constant(GROUP_THREADS as u32 * vector);
                let one = self.constant(1);
                let place = self.op(Op::IAdd, first, ahead);
                let last = self.op(Op::ISub, quads, one);
                index = self.least(place, last);
            }
            let quad = self.quad(index);
            let mut values = Vec::with_capacity(self.plan.loads.len());
            for at in 0..self.plan.loads.len() {
                values.push(self.load(&quad, at));
            }
            loaded.push((quad, values));
        }
        for (vector, (quad, values)) in (0..).zip(loaded) {
            if vector == 0 {
                self.compute(&quad, &values);
                continue;
            }
            let ahead = self.constant(GROUP_THREADS as u32 * vector);
            let place = self.op(Op::IAdd, first, ahead);
            let inside = self.compare(Op::ULessThan, place, quads);
            self.when(inside, |writer| writer.compute(&quad, &values));
        }
    }

    fn quad(&mut self, index: Id) -> Quad {
        let whole = self.plan.cut.whole;
        let four = self.constant(4);
        let start = self.op(Op::IMul, index, four);
        let n = match whole {
            true => four,
            false => {
                let left = self.op(Op::ISub, self.count, start);
                self.least(left, four)
            }
        };
        let elements = [0, 1, 2, 3].map(|j| {
            if j == 0 {
                return start;
            }
            let ahead = self.constant(j);
            let ahead = match whole {
                true => ahead,
                false => {
                    let one = self.constant(1);
                    let last = self.op(Op::ISub, n, one);
                    self.least(ahead, last)
                }
            };
            self.op(Op::IAdd, start, ahead)
        });
        let mut quad = Quad {
            index,
            n,
            elements,
            rows: None,
        };
        let mut loads = self.plan.loads.iter();
        if loads.any(|load| load.access != Access::Dense) {
            quad.rows = Some(self.rows(&quad));
        }
        quad
    }

    /// The indexes in each dimension of the four elements; of the first alone where all four are in
    /// one row.
    fn rows(&mut self, quad: &Quad) -> Vec<Row> {
        let elements = match in_quads(&self.plan.shape) {
            true => &quad.elements[..1],
            false => &quad.elements[..],
        };
        let extents = self.extents.clone();
        let mut rows = Vec::with_capacity(elements.len());
        for &element in elements {
            let mut rest = element;
            let mut indexes = Vec::with_capacity(extents.len() + 1);
            for &extent in &extents {
                let outer = self.op(Op::UDiv, rest, extent);
                let before = self.op(Op::IMul, outer, extent);
                indexes.push(self.op(Op::ISub, rest, before));
                rest = outer;
            }
            indexes.push(rest);
            rows.push(Row(indexes));
        }
        rows
    }

    /// The places of the four elements of a load.
    fn places(&mut self, quad: &Quad, at: usize) -> [Id; 4] {
        let Some(rows) = quad.rows.as_deref().filter(|_| !self.is_dense(at)) else {
            return quad.elements;
        };
        let access = self.plan.loads[at].access;
        let first = self.place(&rows[0], at);
        if rows.len() > 1 {
            let mut places = [first; 4];
            for (place, row) in places.iter_mut().zip(rows).skip(1) {
                *place = self.place(row, at);
            }
            return places;
        }
        let mut places = [first; 4];
        if access == Access::Same {
            return places;
        }
        for (place, &element) in places.iter_mut().zip(&quad.elements).skip(1) {
            let ahead = self.op(Op::ISub, element, quad.elements[0]);
            let ahead = match (access, self.places[at].get(1)) {
                (Access::Apart, Some(&stride)) => self.op(Op::IMul, ahead, stride),
                _ => ahead,
            };
            *place = self.op(Op::IAdd, first, ahead);
        }
        places
    }

    fn is_dense(&self, at: usize) -> bool {
        self.plan.loads[at].access == Access::Dense
    }

    /// The place of one element of a load that is not dense.
    fn place(&mut self, row: &Row, at: usize) -> Id {
        let access = self.plan.loads[at].access;
        let known = self.places[at].clone();
        let (mut place, mut strides) = (known[0], known[1..].iter());
        for (dimension, &index) in row.0.iter().enumerate() {
            let ahead = match (dimension, access) {
                (0, Access::Same) => continue,
                (0, Access::Vector) => index,
                _ => match strides.next() {
                    Some(&stride) => self.op(Op::IMul, index, stride),
                    None => continue,
                },
            };
            place = self.op(Op::IAdd, place, ahead);
        }
        place
    }

    /// The values of a load for the four elements.
    fn load(&mut self, quad: &Quad, at: usize) -> [Id; 4] {
        let load = self.plan.loads[at].clone();
        let places = self.places(quad, at);
        let words = match load.access {
            Access::Dense | Access::Vector => self.load_vector(quad, &load, places),
            Access::Same => [self.load_word(&load, places[0]); 4],
            Access::Apart => places.map(|place| self.load_word(&load, place)),
        };
        if load.form.is_word_of(load.compute) {
            return words;
        }
        let mut values = words;
        for (value, place) in values.iter_mut().zip(places) {
            *value = self.decoded(load.form, load.compute.id(), *value, place);
        }
        values
    }

    /// The value of an element out of its word.
    pub fn decoded(&mut self, form: Form, compute: u32, word: Id, place: Id) -> Id {
        let (form, compute) = (self.constant(form.id()), self.constant(compute));
        let decode = self.decode.clone();
        self.call(&decode, &[form, compute, word, place])
    }

    /// The word that holds an element.
    fn load_word(&mut self, load: &Load, place: Id) -> Id {
        let shift = self.constant(shift(load.form));
        let at = self.op(Op::ShiftRightLogical, place, shift);
        self.load_at(load.binding, 1, at)
    }

    fn load_at(&mut self, binding: usize, words: u32, at: Id) -> Id {
        let (of, buffer) = self.buffer(binding as u32, words, false);
        let pointer = self.a.buffer_element(of, buffer, at);
        self.a.op(Op::Load, of, &[pointer])
    }

    /// The words of four neighbours: as a vector, or in the last quad one by one.
    fn load_vector(&mut self, quad: &Quad, load: &Load, places: [Id; 4]) -> [Id; 4] {
        let words = 4 >> shift(load.form);
        if self.plan.cut.whole || words == 1 {
            return self.load_four(load, words, places[0]);
        }
        let uint = self.uint;
        let slots = [0; 4].map(|_| self.a.local(uint));
        let four = self.constant(4);
        let is_whole = self.compare(Op::IEqual, quad.n, four);
        let all = |writer: &mut Self| {
            let values = writer.load_four(load, words, places[0]);
            writer.store_all(slots, values);
        };
        self.either(is_whole, all, |writer| {
            let values = places.map(|place| writer.load_word(load, place));
            writer.store_all(slots, values);
        });
        slots.map(|slot| self.a.op(Op::Load, uint, &[slot]))
    }

    fn store_all(&mut self, slots: [Id; 4], values: [Id; 4]) {
        for (slot, value) in slots.into_iter().zip(values) {
            self.a.effect(Op::Store, &[slot, value]);
        }
    }

    fn load_four(&mut self, load: &Load, words: u32, place: Id) -> [Id; 4] {
        let two = self.constant(2);
        let at = self.op(Op::ShiftRightLogical, place, two);
        let loaded = self.load_at(load.binding, words, at);
        let uint = self.uint;
        match words {
            1 => [loaded; 4],
            2 => [0, 0, 1, 1].map(|place| self.a.component(uint, loaded, place)),
            _ => [0, 1, 2, 3].map(|place| self.a.component(uint, loaded, place)),
        }
    }

    /// Stores the elements of a quad, which are bits of the form's type.
    pub fn store(&mut self, quad: &Quad, binding: u32, form: Form, bits: [Id; 4]) {
        let inside = self.inside(quad);
        match shift(form) {
            0 => self.store_words(quad, binding, &inside, &bits),
            shift => {
                let mut bits = bits;
                let zero = self.constant(0);
                for (bits, &inside) in bits.iter_mut().zip(&inside) {
                    *bits = self.select(inside, *bits, zero);
                }
                match shift {
                    1 => self.store_halves(quad, binding, inside.get(2), bits),
                    _ => self.store_bytes(quad, binding, bits),
                }
            }
        }
    }

    /// Whether each element of a quad is there; nothing where all quads are whole.
    fn inside(&mut self, quad: &Quad) -> Vec<Id> {
        let places = if self.plan.cut.whole { 0..0 } else { 0..4 };
        places
            .map(|j| {
                let j = self.constant(j);
                self.compare(Op::ULessThan, j, quad.n)
            })
            .collect()
    }

    fn store_words(&mut self, quad: &Quad, binding: u32, inside: &[Id], bits: &[Id; 4]) {
        let Some(&all) = inside.get(3) else {
            return self.store_at(binding, quad.index, bits);
        };
        let start = quad.elements[0];
        let whole = |writer: &mut Self| writer.store_at(binding, quad.index, bits);
        self.either(all, whole, |writer| {
            for (j, (bits, &inside)) in (0..).zip(bits[..3].iter().zip(inside)) {
                let ahead = writer.constant(j);
                let place = writer.op(Op::IAdd, start, ahead);
                writer.when(inside, |writer| writer.store_at(binding, place, &[*bits]));
            }
        });
    }

    /// Two bytes per element; `third` says whether the third is there, and with it the second word.
    fn store_halves(&mut self, quad: &Quad, binding: u32, third: Option<&Id>, bits: [Id; 4]) {
        let [a, b, c, d] = bits;
        let words = [self.packed(a, b, 16), self.packed(c, d, 16)];
        let Some(&third) = third else {
            return self.store_at(binding, quad.index, &words);
        };
        let two = self.constant(2);
        let first = self.op(Op::IMul, quad.index, two);
        let whole = |writer: &mut Self| writer.store_at(binding, quad.index, &words);
        self.either(third, whole, |writer| {
            writer.store_at(binding, first, &words[..1])
        });
    }

    fn store_bytes(&mut self, quad: &Quad, binding: u32, [a, b, c, d]: [Id; 4]) {
        let (low, high) = (self.packed(a, b, 8), self.packed(c, d, 8));
        let word = self.packed(low, high, 16);
        self.store_at(binding, quad.index, &[word]);
    }

    /// `low | high << bits`.
    fn packed(&mut self, low: Id, high: Id, bits: u32) -> Id {
        let bits = self.constant(bits);
        let shifted = self.op(Op::ShiftLeftLogical, high, bits);
        self.op(Op::BitwiseOr, low, shifted)
    }

    fn store_at(&mut self, binding: u32, at: Id, words: &[Id]) {
        let (of, buffer) = self.buffer(binding, words.len() as u32, true);
        let value = match words {
            [word] => *word,
            _ => self.a.op(Op::CompositeConstruct, of, words),
        };
        let pointer = self.a.buffer_element(of, buffer, at);
        self.a.effect(Op::Store, &[pointer, value]);
    }
}

/// The logarithm of a form's elements per word.
fn shift(form: Form) -> u32 {
    form.per_word().ilog2()
}

//! The stages of a chain over the four elements of a quad.

use hlx_spirv::join::Id;
use hlx_spirv::spirv::Op;

use super::super::plan::Input;
use super::Writer;
use super::frame::Quad;

impl Writer<'_> {
    /// Computes a quad from what was loaded for it, and stores what is to be stored.
    pub fn compute(&mut self, quad: &Quad, loaded: &[[Id; 4]]) {
        let results = match self.plan.cut.native {
            true => self.each_element(loaded),
            false => self.in_a_loop(quad, loaded),
        };
        let bound = self.plan.loads.iter().map(|load| load.binding + 1).max();
        let mut binding = bound.unwrap_or(0) as u32;
        for (planned, bits) in self.plan.stages.iter().zip(results) {
            if let Some(bits) = bits {
                self.store(quad, binding, planned.launch.out_form, bits);
                binding += 1;
            }
        }
    }

    /// Four copies of the stages; returns the bits of each stored result.
    fn each_element(&mut self, loaded: &[[Id; 4]]) -> Vec<Option<[Id; 4]>> {
        let copies = [0, 1, 2, 3].map(|j| {
            let values: Vec<Id> = loaded.iter().map(|values| values[j]).collect();
            self.element(&values)
        });
        let stored = self.plan.stages.iter().map(|planned| planned.is_stored);
        let of = |stage: usize| [0, 1, 2, 3].map(|j: usize| copies[j][stage]);
        let results = stored.enumerate();
        results
            .map(|(stage, stored)| stored.then(|| of(stage)))
            .collect()
    }

    /// One copy of the stages, in a loop over the elements.
    fn in_a_loop(&mut self, quad: &Quad, loaded: &[[Id; 4]]) -> Vec<Option<[Id; 4]>> {
        let (uint, vector) = (self.uint, self.a.vector(self.uint, 4));
        let mut operands = Vec::with_capacity(loaded.len());
        for values in loaded {
            let operand = self.a.local(vector);
            let values = self.a.op(Op::CompositeConstruct, vector, values);
            self.a.effect(Op::Store, &[operand, values]);
            operands.push(operand);
        }
        let stages = &self.plan.stages;
        let stored: Vec<bool> = stages.iter().map(|planned| planned.is_stored).collect();
        let zero = self.constant(0);
        let zeros = self.a.op(Op::CompositeConstruct, vector, &[zero; 4]);
        let mut results = Vec::with_capacity(stored.len());
        for stored in stored {
            let result = stored.then(|| self.a.local(vector));
            if let Some(result) = result {
                self.a.effect(Op::Store, &[result, zeros]);
            }
            results.push(result);
        }
        let each = self.a.begin_loop(quad.n);
        let index = each.index;
        let element = |writer: &mut Self, local| writer.a.element(uint, local, index);
        let mut values = Vec::with_capacity(operands.len());
        for operand in operands {
            let pointer = element(self, operand);
            values.push(self.a.op(Op::Load, uint, &[pointer]));
        }
        let bits = self.element(&values);
        for (result, bits) in results.iter().zip(bits) {
            if let Some(result) = *result {
                let pointer = element(self, result);
                self.a.effect(Op::Store, &[pointer, bits]);
            }
        }
        self.a.end_loop(each);
        let mut found = Vec::with_capacity(results.len());
        for result in results {
            found.push(result.map(|result| {
                let loaded = self.a.op(Op::Load, vector, &[result]);
                [0, 1, 2, 3].map(|place| self.a.component(uint, loaded, place))
            }));
        }
        found
    }

    /// All stages over one element; returns the bits of each result as it would be stored.
    fn element(&mut self, loaded: &[Id]) -> Vec<Id> {
        let mut results: Vec<Id> = Vec::with_capacity(self.plan.stages.len());
        for (at, planned) in self.plan.stages.iter().enumerate() {
            let (launch, mut arguments) = (planned.launch, Vec::with_capacity(3));
            for (operand, input) in launch.operands.iter().zip(&planned.inputs) {
                arguments.push(match *input {
                    Input::Load(load) => loaded[load],
                    Input::Stage(from) if operand.form.is_word_of(launch.compute) => results[from],
                    Input::Stage(from) => {
                        let first = self.constant(0);
                        self.decoded(operand.form, launch.compute.id(), results[from], first)
                    }
                });
            }
            let formula = self.formulas[at].clone();
            let value = self.call(&formula, &arguments);
            results.push(match launch.out_form.is_word_of(launch.compute) {
                true => value,
                false => {
                    let form = self.constant(launch.out_form.id());
                    let compute = self.constant(launch.compute.id());
                    let encode = self.encode.clone();
                    self.call(&encode, &[form, compute, value])
                }
            });
        }
        results
    }
}

//! The messages that a rank sends in one step.

/// One message of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Send {
    /// The rank that receives it.
    pub to: u32,
    /// The first of the digits whose blocks it carries, and the number of digits: see `Stage`.
    pub(super) first: u32,
    pub(super) count: u32,
}

/// The messages of a rank in one step, in sending order. It allocates nothing, since engines iterate over it for every
/// rank, step and chunk.
#[derive(Clone, Debug)]
pub struct Sends(Remaining);

#[derive(Clone, Debug)]
enum Remaining {
    /// At most four: to two children in each of two trees.
    Few {
        sends: [Send; 4],
        next: u8,
        end: u8,
    },
    Around(Around),
}

/// One message to every other rank of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    /// The rank of digit 0.
    pub(super) origin: u32,
    /// The difference between the numbers of ranks with consecutive digits.
    pub(super) stride: u32,
    /// The number of ranks in the group.
    pub(super) ranks: u32,
    /// The digit of the next receiver.
    pub(super) next: u32,
    /// The number of receivers left.
    pub(super) left: u32,
    /// The digits (first, count) whose blocks every receiver gets; if `None`, each receiver gets the blocks of its digit.
    pub(super) part: Option<(u32, u32)>,
}

impl Sends {
    pub(super) fn none() -> Self {
        Self(Remaining::Few { sends: [Send::default(); 4], next: 0, end: 0 })
    }

    pub(super) fn one(send: Send) -> Self {
        let mut sends = [Send::default(); 4];
        sends[0] = send;
        Self(Remaining::Few { sends, next: 0, end: 1 })
    }

    /// At most four messages.
    ///
    /// # Panics
    /// If there are more.
    pub(super) fn few(list: impl IntoIterator<Item = Send>) -> Self {
        let (mut sends, mut end) = ([Send::default(); 4], 0);
        for send in list {
            sends[usize::from(end)] = send;
            end += 1;
        }
        Self(Remaining::Few { sends, next: 0, end })
    }

    pub(super) fn around(around: Around) -> Self {
        Self(Remaining::Around(around))
    }
}

impl Iterator for Sends {
    type Item = Send;

    fn next(&mut self) -> Option<Send> {
        match &mut self.0 {
            Remaining::Few { sends, next, end } => (*next < *end).then(|| {
                *next += 1;
                sends[usize::from(*next) - 1]
            }),
            Remaining::Around(around) => around.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Remaining::Few { next, end, .. } => usize::from(end - next),
            Remaining::Around(around) => around.left as usize,
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Sends {}

impl Iterator for Around {
    type Item = Send;

    fn next(&mut self) -> Option<Send> {
        self.left = self.left.checked_sub(1)?;
        let digit = self.next;
        self.next = if digit + 1 == self.ranks { 0 } else { digit + 1 };
        let (first, count) = self.part.unwrap_or((digit, 1));
        Some(Send { to: self.origin + digit * self.stride, first, count })
    }
}

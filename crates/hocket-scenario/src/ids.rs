//! Index types: the position of a node, a link or a job in the `Vec` that holds all of its kind.

macro_rules! index_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        // Four bytes instead of eight: events and rows contain many of them.
        pub struct $name(u32);

        impl $name {
            /// The `index`-th of its kind, counted from 0.
            pub const fn new(index: u32) -> Self {
                Self(index)
            }

            /// The position in the `Vec`.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The index as the code of a dictionary column.
            pub const fn code(self) -> u32 {
                self.0
            }

            /// The `index`-th of its kind, counted from 0.
            ///
            /// # Panics
            /// If `index` is 2^32 or more.
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("a run has fewer than 2^32 things of a kind"))
            }
        }
    };
}

index_type! {
    /// A host or a switch of a [`Fabric`](crate::Fabric).
    NodeId
}
index_type! {
    /// A directed link of a [`Fabric`](crate::Fabric).
    LinkId
}
index_type! {
    /// A job of a [`Scenario`](crate::Scenario).
    JobId
}

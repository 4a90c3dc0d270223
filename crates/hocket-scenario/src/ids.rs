//! Index types: what a run has many of lives in a `Vec` and is named by its place there.

macro_rules! index_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The `index`-th of its kind, counted from 0.
            pub const fn new(index: u32) -> Self {
                Self(index)
            }

            /// The place in the `Vec` of its kind.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The place as it stands in a dictionary column.
            pub const fn code(self) -> u32 {
                self.0
            }

            /// The one at place `index` of the `Vec` of its kind.
            ///
            /// # Panics
            /// At 2^32 and beyond: a run has fewer of anything.
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

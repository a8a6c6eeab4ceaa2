//! The macro that turns a list of fields into a type, and what a field may be.

use std::borrow::Cow;

use crate::proto::remoting::ext::{integer, truth};
use crate::proto::remoting::{ExtSink, FieldError, Text};

/// Declares the ext fields of a request or response:
///
/// ```text
/// pub struct Name<'a> {                                 // <'a> if it holds text
///     required: i64 = "wireName",                       // absent: an error
///     optional: Option<Cow<'a, str>> = "wireName",      // absent: None
///     defaulted: bool = "wireName" or true,             // absent: true
///     renamed: bool = "newName" | "oldName" or false,   // read under both names, written under the first
/// }
/// ```
///
/// The type gets `decode`, `encode` and `into_owned`. Unknown fields are ignored, as tools and brokers of different
/// versions talk to each other.
macro_rules! ext_fields {
    ($(#[$meta:meta])* pub struct $name:ident<$life:lifetime> { $($fields:tt)+ }) => {
        ext_fields!(@define [$(#[$meta])*] $name [<$life>] [<'static>] $life { $($fields)+ });
    };
    ($(#[$meta:meta])* pub struct $name:ident { $($fields:tt)+ }) => {
        ext_fields!(@define [$(#[$meta])*] $name [] [] '_ { $($fields)+ });
    };
    (@define [$($meta:tt)*] $name:ident [$($generics:tt)*] [$($owned:tt)*] $life:lifetime {
        $($(#[$doc:meta])* $field:ident: $type:ty = $wire:literal $(| $alias:literal)* $(or $default:expr)?,)+
    }) => {
        $($meta)*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name $($generics)* {
            $(
                #[doc = concat!("`", $wire, "`.")]
                $(#[$doc])*
                pub $field: $type,
            )+
        }

        impl $($generics)* $name $($generics)* {
            /// Picks the fields out of a header.
            pub fn decode(ext: &$crate::proto::remoting::ExtFields<$life>)
                -> Result<Self, $crate::proto::remoting::FieldError>
            {
                $(let mut $field = None;)+
                for field in ext {
                    match &*field.name.str() {
                        $($wire $(| $alias)* => $field = field.value,)+
                        _ => {}
                    }
                }
                Ok(Self { $($field: ext_fields!(@read $wire, $field $(, $default)?),)+ })
            }

            /// Writes the fields that are present.
            pub fn encode(&self, sink: &mut impl $crate::proto::remoting::ExtSink) {
                $($crate::proto::remoting::requests::fields::FieldValue::write(&self.$field, $wire, sink);)+
            }

            /// The same fields, holding on to no header.
            pub fn into_owned(self) -> $name $($owned)* {
                $name {
                    $($field: $crate::proto::remoting::requests::fields::FieldValue::into_owned(self.$field),)+
                }
            }
        }

        impl $($generics)* $crate::proto::remoting::ToExt for $name $($generics)* {
            fn encode(&self, sink: &mut impl $crate::proto::remoting::ExtSink) {
                self.encode(sink);
            }
        }
    };
    (@read $wire:literal, $field:ident) => {
        $crate::proto::remoting::requests::fields::FieldValue::read($wire, $field)?
    };
    (@read $wire:literal, $field:ident, $default:expr) => {
        <Option<_> as $crate::proto::remoting::requests::fields::FieldValue>::read($wire, $field)?.unwrap_or($default)
    };
}
pub(super) use ext_fields;

/// What a field of [`ext_fields`] may be: text, a number, a truth, or any of them optional.
pub(super) trait FieldValue<'a>: Sized {
    /// The same without a borrow.
    type Static;

    /// Reads the value of the field `name`, of which `text` is the last one that came.
    fn read(name: &'static str, text: Option<Text<'a>>) -> Result<Self, FieldError>;

    /// Writes the field, unless it is absent.
    fn write(&self, name: &'static str, sink: &mut impl ExtSink);

    fn into_owned(self) -> Self::Static;
}

impl<'a> FieldValue<'a> for Cow<'a, str> {
    type Static = Cow<'static, str>;

    #[inline]
    fn read(name: &'static str, text: Option<Text<'a>>) -> Result<Self, FieldError> {
        text.map(Text::str).ok_or(FieldError::Missing(name))
    }

    fn write(&self, name: &'static str, sink: &mut impl ExtSink) {
        sink.put_str(name, self);
    }

    fn into_owned(self) -> Self::Static {
        Cow::Owned(self.into_owned())
    }
}

impl FieldValue<'_> for i32 {
    type Static = Self;

    #[inline]
    fn read(name: &'static str, text: Option<Text<'_>>) -> Result<Self, FieldError> {
        integer(name, text, "a 32-bit integer")?.ok_or(FieldError::Missing(name))
    }

    fn write(&self, name: &'static str, sink: &mut impl ExtSink) {
        sink.put_i64(name, i64::from(*self));
    }

    fn into_owned(self) -> Self {
        self
    }
}

impl FieldValue<'_> for i64 {
    type Static = Self;

    #[inline]
    fn read(name: &'static str, text: Option<Text<'_>>) -> Result<Self, FieldError> {
        integer(name, text, "a 64-bit integer")?.ok_or(FieldError::Missing(name))
    }

    fn write(&self, name: &'static str, sink: &mut impl ExtSink) {
        sink.put_i64(name, *self);
    }

    fn into_owned(self) -> Self {
        self
    }
}

impl FieldValue<'_> for bool {
    type Static = Self;

    #[inline]
    fn read(name: &'static str, text: Option<Text<'_>>) -> Result<Self, FieldError> {
        text.map(truth).ok_or(FieldError::Missing(name))
    }

    fn write(&self, name: &'static str, sink: &mut impl ExtSink) {
        sink.put_bool(name, *self);
    }

    fn into_owned(self) -> Self {
        self
    }
}

impl<'a, T: FieldValue<'a>> FieldValue<'a> for Option<T> {
    type Static = Option<T::Static>;

    #[inline]
    fn read(name: &'static str, text: Option<Text<'a>>) -> Result<Self, FieldError> {
        match T::read(name, text.filter(|text| !text.is_empty())) {
            Ok(value) => Ok(Some(value)),
            Err(FieldError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, name: &'static str, sink: &mut impl ExtSink) {
        if let Some(value) = self {
            value.write(name, sink);
        }
    }

    fn into_owned(self) -> Self::Static {
        self.map(T::into_owned)
    }
}

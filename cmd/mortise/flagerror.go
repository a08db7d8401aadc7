package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

// flagError says what is wrong with a flag in the words of a user, not in those of a parser.
func flagError(err error) error {
	var value *pflag.InvalidValueError
	var none *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		return fmt.Errorf("%s is %q; %s", flagName(value.GetFlag()), value.GetValue(), wanted(value))
	case errors.As(err, &none):
		return fmt.Errorf("%s needs a value", flagName(none.GetFlag()))
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		// The rest may be a password, which the clients of some databases take as -pPASSWORD.
		return fmt.Errorf("unknown flag: -%.1s", unknown.GetSpecifiedName())
	}
	return err
}

// flagName returns the name of a flag, and its letter if it has one.
func flagName(f *pflag.Flag) string {
	if f.Shorthand == "" {
		return "--" + f.Name
	}
	return "--" + f.Name + " (-" + f.Shorthand + ")"
}

// wanted says which values a flag accepts.
func wanted(err *pflag.InvalidValueError) string {
	value := bare(err.GetFlag().Value)
	switch value.(type) {
	case *duration.Flag, *filled:
		return err.Unwrap().Error()
	}
	switch value.Type() {
	case "int":
		return numberFault(err.Unwrap())
	case "bool":
		return "it must be true or false"
	case "stringSlice":
		return "write it as NAME,NAME; a name with a comma or a quotation mark goes into \"…\", and marks in it are doubled"
	}
	return "it has another form"
}

// numberFault says why a text was not accepted as a whole number.
func numberFault(err error) string {
	if errors.Is(err, strconv.ErrRange) {
		return "that is too large"
	}
	return "it must be a whole number"
}

package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// canAsk reports whether there is a user to ask: one who sees the question and can type the answer.
func (a *app) canAsk() bool { return a.line.terminal != nil && term.IsTerminal(int(os.Stdin.Fd())) }

// confirmed asks the user a question, and reports whether the answer is yes. The end of the input is a no.
func (a *app) confirmed(question string) bool {
	a.line.around(func() { fmt.Fprintf(a.stderr, "%s [y/N] ", question) })
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.stderr) // the answer has not ended the line
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

package doctor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/memredis"
)

// A program that refuses to start on a Redis that loses locks.
func ExampleExamine() {
	server := memredis.New()
	defer server.Close()
	d := server.Driver()
	defer d.Close()

	report, err := doctor.Examine(context.Background(), d, &doctor.Options{Kinds: []doctor.Kind{doctor.KindLock}})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Severity == doctor.Critical {
			log.Fatalf("%s: %s. %s", f.ID, f.Found, f.Do)
		}
	}
	fmt.Println("nothing critical")
	// Output: nothing critical
}

// The rule for a user who lists locks, on top of what it may do already.
func ExampleRule() {
	words, err := doctor.Rule{User: "worker", Prefix: "app:", Kinds: []doctor.Kind{doctor.KindList}}.Words()
	fmt.Println(words, err)
	// Output: [ACL SETUSER worker +scan] <nil>
}

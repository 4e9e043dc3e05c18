// Writes a record every 100 ms for so many seconds, by PLAIN; prints how many were written, and what went wrong.
// Standard input: {"bootstrap", "user", "password", "topic", "seconds"}.
package main

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

type writing struct {
	Bootstrap, User, Password, Topic string
	Seconds                          int
}

func keepWriting() error {
	var told writing
	if err := json.NewDecoder(os.Stdin).Decode(&told); err != nil {
		return err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(told.Bootstrap), kgo.DefaultProduceTopic(told.Topic), kgo.AllowAutoTopicCreation(),
		kgo.SASL(plain.Auth{User: told.User, Pass: told.Password}.AsMechanism()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	written, errors := 0, []string{}
	for end := time.Now().Add(time.Duration(told.Seconds) * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := client.ProduceSync(context.Background(), kgo.StringRecord("value")).FirstErr(); err != nil {
			errors = append(errors, err.Error())
		} else {
			written++
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"written": written, "errors": errors})
}

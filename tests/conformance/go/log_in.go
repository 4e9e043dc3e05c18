// Logs in once for each of the attempts (a JSON array on standard input), and prints what became of each (a JSON array).
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type attempt struct {
	Bootstrap, Mechanism, User, Password, Token, Ca, Identity string
	ByToken                                                  bool `json:"by_token"`
}

type outcome struct {
	In    bool   `json:"in"`
	Error string `json:"error"`
}

func logIns() error {
	var attempts []attempt
	if err := json.NewDecoder(os.Stdin).Decode(&attempts); err != nil {
		return err
	}
	outcomes := make([]outcome, len(attempts))
	for n, each := range attempts {
		if err := each.logIn(); err != nil {
			outcomes[n].Error = err.Error()
		} else {
			outcomes[n].In = true
		}
	}
	return json.NewEncoder(os.Stdout).Encode(outcomes)
}

// Beside each PKCS12 store, which this library does not read, is the same in PEM.
func pemOf(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path, ".p12"), ".pem") + ".pem"
}

func (a attempt) logIn() error {
	options := []kgo.Opt{kgo.SeedBrokers(a.Bootstrap)}
	var mechanism sasl.Mechanism
	switch a.Mechanism {
	case "PLAIN":
		mechanism = plain.Auth{User: a.User, Pass: a.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = scram.Auth{User: a.User, Pass: a.Password, IsToken: a.ByToken}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = scram.Auth{User: a.User, Pass: a.Password, IsToken: a.ByToken}.AsSha512Mechanism()
	case "OAUTHBEARER":
		mechanism = oauth.Auth{Token: a.Token}.AsMechanism()
	}
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	if a.Ca != "" {
		pem, err := os.ReadFile(pemOf(a.Ca))
		if err != nil {
			return err
		}
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(pem)
		if a.Identity != "" {
			pair, err := tls.LoadX509KeyPair(pemOf(a.Identity), pemOf(a.Identity))
			if err != nil {
				return err
			}
			config.Certificates = []tls.Certificate{pair}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	return client.Ping(ctx)
}

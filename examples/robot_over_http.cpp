// A robot in C++ that asks `hpsde serve RUN` what to try and tells it what came of it. POSIX sockets, no library.
//
//   g++ -std=c++17 -O2 -o robot examples/robot_over_http.cpp
//   HPSDE_TOKEN=... ./robot 127.0.0.1 8477 20
//
// It reads the few numbers that it needs out of the answers; a program that has a JSON library should use it.

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>

struct Answer {
    int status;
    std::string body;
};

// One request on a connection of its own.
Answer post(const std::string& host, const std::string& port, const std::string& call, const std::string& json) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) throw std::runtime_error("no such host");
    const int connection = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    const bool reached = connect(connection, found->ai_addr, found->ai_addrlen) == 0;
    freeaddrinfo(found);
    if (!reached) throw std::runtime_error("no server at " + host + ":" + port);

    const char* token = std::getenv("HPSDE_TOKEN");
    std::ostringstream request;
    request << "POST /" << call << " HTTP/1.1\r\nHost: " << host << ":" << port
            << "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " << json.size() << "\r\n";
    if (token) request << "Authorization: Bearer " << token << "\r\n";
    request << "\r\n" << json;
    const std::string text = request.str();
    for (size_t sent = 0; sent < text.size();) {
        const ssize_t part = send(connection, text.data() + sent, text.size() - sent, 0);
        if (part <= 0) throw std::runtime_error("the connection broke");
        sent += part;
    }
    std::string answer;
    char buffer[4096];
    for (ssize_t part; (part = recv(connection, buffer, sizeof buffer, 0)) > 0;) answer.append(buffer, part);
    close(connection);
    const size_t end = answer.find("\r\n\r\n");
    if (end == std::string::npos) throw std::runtime_error("no answer");
    return {std::stoi(answer.substr(9, 3)), answer.substr(end + 4)};
}

// The first number after a name: of a list, its first.
double number_of(const std::string& json, const std::string& name) {
    const size_t at = json.find("\"" + name + "\":");
    if (at == std::string::npos) throw std::runtime_error("no " + name + " in " + json);
    return std::stod(json.substr(json.find_first_of("-0123456789", at + name.size() + 3)));
}

Answer checked(Answer answer) {
    if (answer.status != 200) throw std::runtime_error(std::to_string(answer.status) + ": " + answer.body);
    return answer;
}

int main(int count, char** words) try {
    if (count != 4) throw std::runtime_error("expected HOST PORT ROLLOUTS");
    const std::string host = words[1], port = words[2];
    for (int i = 0; i < std::stoi(words[3]); ++i) {
        const double distance = 3.0 + 5.0 * std::fmod(0.618034 * i, 1.0);
        std::ostringstream context;
        context << "{\"contexts\": [[" << distance << "]]}";
        const std::string asked = checked(post(host, port, "ask", context.str())).body;
        const double angle = number_of(asked, "parameters");

        // The robot throws: a ball at 10 m/s, minus how far from the target it lands.
        const double landing = 100.0 / 9.81 * std::sin(2.0 * angle * M_PI / 180.0);
        std::ostringstream told;
        told << std::setprecision(std::numeric_limits<double>::max_digits10) << "{\"id\": "
             << static_cast<long>(number_of(asked, "id")) << ", \"return\": " << -std::abs(landing - distance) << "}";
        checked(post(host, port, "tell", told.str()));
        checked(post(host, port, "tell", told.str()));  // as after a lost answer: the same again does no harm
    }
    std::cout << "told " << words[3] << " rollouts\n";
} catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
